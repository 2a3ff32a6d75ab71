"""The paper's Tables 1 to 13 as data, and the printed row that one of our recipes reproduces.

The numbers lie in `paper/tables.csv`, one per line, as `paper/README.md` describes. They come from Struppek et al.,
"Be Careful What You Smooth For" (ICLR 2024).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.resolved import resolved

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep


def as_word(text: str) -> str:
    """A word."""
    if not text or text != text.strip():
        raise ValueError("a word")
    return text


def optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same reader, None for an empty cell."""
    return lambda text: parse(text) if text else None


def one_of(names: Iterable[str]) -> Callable[[str], str]:
    """A reader that takes these words alone."""
    valid = tuple(names)

    def parse(text: str) -> str:
        if text not in valid:
            raise ValueError(f"one of {', '.join(valid)}")
        return text

    return parse


def as_count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number from 1")
    return int(text)


def as_real(text: str) -> float:
    """A plain decimal: no exponent, which would hide how many digits were printed."""
    if not text.removeprefix("-").replace(".", "", 1).isdecimal() or not math.isfinite(float(text)):
        raise ValueError("a decimal number")
    return float(text)


def as_samples(text: str) -> int | None:
    """Images per class; None for `all`."""
    return None if text == "all" else as_count(text)


def as_setting(text: str) -> Mapping[str, str]:
    """`name=value;name=value` as a mapping."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    if any(not name or not equals or not value for name, equals, value in pairs):
        raise ValueError("name=value, several separated by ;")
    return MappingProxyType({name: value for name, _, value in pairs})


TABLES_FILE = Path(__file__).resolve().parent / "paper" / "tables.csv"
TABLES = tuple(str(number) for number in range(1, 14))
UNITS = ("fraction", "plain", "squared_l2")
CHANGE = "_change"
"""End of the name of a metric that is a difference printed beside another metric."""

AXES = (
    "dataset",
    "architecture",
    "defense",
    "alpha",
    "beta",
    "lambda_input",
    "lambda_label",
    "samples_per_class",
    "attack",
)
"""What a recipe can be told apart by in every table; a table may add names of its own (`PaperRow.setting`)."""

DEFENSES: dict[str, tuple[str, ...]] = {
    "none": ("alpha",),
    "label_smoothing": ("alpha",),
    "mid": ("beta",),
    "bido": ("lambda_input", "lambda_label"),
}
"""Defense -> its parameters."""


@dataclass(frozen=True, kw_only=True)
class PaperNumber:
    """One printed number and the row it stands in.

    Attributes:
        row: Position of the printed row within its table, from 1 (Tables 1 and 13 print two data sets side by side: the
            second data set's rows follow the first's).
        image_size: Pixels, None where not stated.
        samples_per_class: None is all.
        classes: How many classes were attacked, None where not stated.
        setting: What tells rows of one recipe apart in this table alone, such as the model that selected the results.
        value: As printed, fractions in [0, 1] for percentages.
        decimals: Digits behind the point of `value` that the paper printed.
        unit: "fraction", "squared_l2" or "plain".
        note: How the row was identified, where its label is lost or contradicted.
    """

    table: str
    row: int
    dataset: str
    image_size: int | None
    architecture: str
    defense: str
    alpha: float | None
    beta: float | None
    lambda_input: float | None
    lambda_label: float | None
    samples_per_class: int | None
    attack: str | None
    prior: str | None
    classes: int | None
    setting: Mapping[str, str]
    metric: str
    value: float
    decimals: int
    unit: str
    note: str

    @property
    def half_unit(self) -> float:
        """Half a unit of the last printed digit: how far the unrounded number may lie from `value`."""
        return 0.5 * 10.0**-self.decimals

    @property
    def axes(self) -> dict[str, Any]:
        """The row's place: `AXES` and the table's own settings."""
        return {name: getattr(self, name) for name in AXES} | dict(self.setting)


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A printed row: its numbers by metric, in printed order; differences the paper prints beside them left out."""

    numbers: Mapping[str, PaperNumber]

    @property
    def first(self) -> PaperNumber:
        return next(iter(self.numbers.values()))

    @property
    def axes(self) -> dict[str, Any]:
        return self.first.axes

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said about the row's labels, each once."""
        return tuple(dict.fromkeys(number.note for number in self.numbers.values() if number.note))


def paper_rows(table: str) -> list[PaperNumber]:
    """Every number of a table in printed order. InputError for another table than "1" to "13"."""
    if table not in TABLES:
        raise InputError(f"paper table: expected one of {', '.join(TABLES)}, got {table!r}")
    return [number for number in _shipped() if number.table == table]


def printed_rows(table: str, dataset: str | None = None) -> list[PaperRow]:
    """The rows of a table, of one data set if named. InputError for a table or data set that is not there."""
    known = datasets_of(table)
    if dataset is not None and dataset not in known:
        raise InputError(f"paper table {table}: dataset: expected one of {', '.join(known)}, got {dataset!r}")
    rows: dict[int, dict[str, PaperNumber]] = {}
    for number in paper_rows(table):
        if (dataset is None or number.dataset == dataset) and not number.metric.endswith(CHANGE):
            rows.setdefault(number.row, {})[number.metric] = number
    return [PaperRow(numbers=MappingProxyType(numbers)) for numbers in rows.values()]


def datasets_of(table: str) -> tuple[str, ...]:
    """The data sets of a table, in printed order."""
    return tuple(dict.fromkeys(number.dataset for number in paper_rows(table)))


def matching(row_axes: Mapping[str, Any], table: str) -> PaperRow | None:
    """The printed row of the recipe with these axes, None where the table has no such row.

    row_axes: names from `AXES` and the table's own settings. An axis that is not named does not count; None means the
    recipe has no such parameter (samples_per_class: all). alpha 0 is defense "none" by either name, and beside MID or
    BiDO it says nothing. Raises InputError for an unknown name, or where several rows fit: which axis would decide.
    """
    rows = printed_rows(table)
    valid = dict.fromkeys(name for row in rows for name in row.axes)
    for name in row_axes:
        if name not in valid:
            raise InputError(f"paper table {table}: expected axes among {', '.join(valid)}, got {name!r}")
    axes = _normalised(row_axes)
    matches = [row for row in rows if all(_same(row.axes.get(name), value) for name, value in axes.items())]
    if len(matches) > 1:
        apart = [n for n in valid if n not in axes and len({str(row.axes.get(n)) for row in matches}) > 1]
        fits = ", ".join(str(row.first.row) for row in matches)
        raise InputError(f"paper table {table}: expected axes that fit one row, got rows {fits}: name {apart[0]}")
    return matches[0] if matches else None


def _normalised(axes: Mapping[str, Any]) -> dict[str, Any]:
    normalised = dict(axes)
    if normalised.get("defense") in ("none", "label_smoothing"):
        if normalised["defense"] == "none":
            normalised.setdefault("alpha", 0.0)
        if normalised.get("alpha") is not None:
            normalised["defense"] = "none" if normalised["alpha"] == 0 else "label_smoothing"
    elif normalised.get("defense") is not None and normalised.get("alpha") == 0:
        normalised["alpha"] = None
    return normalised


def _same(printed: Any, ours: Any) -> bool:
    """Equal as numbers where both are some, else as text; None only equals None."""
    if printed is None or ours is None:
        return printed is None and ours is None
    try:
        return math.isclose(float(printed), float(ours), rel_tol=1e-9, abs_tol=1e-12)
    except ValueError:
        return str(printed) == str(ours)


@lru_cache(maxsize=1)
def _shipped() -> tuple[PaperNumber, ...]:
    return read_numbers(TABLES_FILE)


def read_numbers(path: Path) -> tuple[PaperNumber, ...]:
    """Every line of a file like `tables.csv`. Raises InputError naming file, line and column of the first mistake."""
    try:
        reader = csv.reader(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a readable text file, got: {error}") from None
    header = next(reader, [])
    if header != list(COLUMNS):
        got = ", ".join(header) or "none"
        raise InputError(f"{path}: line 1: expected the columns {', '.join(COLUMNS)}, got {got}")
    rows: dict[tuple[str, int], list[PaperNumber]] = {}
    for cells in reader:
        where = f"{path}: line {reader.line_num}"
        if len(cells) != len(COLUMNS):
            raise InputError(f"{where}: expected {len(COLUMNS)} columns, got {len(cells)}")
        number = _number(dict(zip(COLUMNS, cells, strict=True)), where)
        row = rows.setdefault((number.table, number.row), [])
        _check_row(row, number, where)
        row.append(number)
    return tuple(number for row in rows.values() for number in row)


def _number(cells: Mapping[str, str], where: str) -> PaperNumber:
    fields = {}
    for column, parse in COLUMNS.items():
        try:
            fields[column] = parse(cells[column])
        except ValueError as error:
            raise InputError(f"{where}, column {column}: expected {error}, got {cells[column]!r}") from None
    number = PaperNumber(**fields, decimals=len(cells["value"].partition(".")[2]))
    for parameter in ("alpha", "beta", "lambda_input", "lambda_label"):
        belongs = parameter in DEFENSES[number.defense]
        if belongs != (getattr(number, parameter) is not None):
            expected = f"{'a number' if belongs else 'nothing'} with defense {number.defense}"
            raise InputError(f"{where}, column {parameter}: expected {expected}, got {cells[parameter]!r}")
    lowest = -1.0 if number.metric.endswith(CHANGE) else 0.0
    if number.unit == "fraction" and not lowest <= number.value <= 1:
        raise InputError(f"{where}, column value: expected a fraction in [{lowest:g}, 1], got {cells['value']!r}")
    return number


def _check_row(row: list[PaperNumber], number: PaperNumber, where: str) -> None:
    """The lines of one printed row agree on its place and give each metric once."""
    for column in (*AXES, "setting", "image_size", "prior", "classes"):
        if row and getattr(row[0], column) != getattr(number, column):
            raise InputError(f"{where}, column {column}: expected the value of the row's other lines, got another")
    if any(other.metric == number.metric for other in row):
        raise InputError(f"{where}, column metric: expected each metric once in a row, got {number.metric!r} again")


COLUMNS: dict[str, Callable[[str], Any]] = {
    "table": one_of(TABLES),
    "row": as_count,
    "dataset": as_word,
    "image_size": optional(as_count),
    "architecture": as_word,
    "defense": one_of(DEFENSES),
    "alpha": optional(as_real),
    "beta": optional(as_real),
    "lambda_input": optional(as_real),
    "lambda_label": optional(as_real),
    "samples_per_class": as_samples,
    "attack": optional(as_word),
    "prior": optional(as_word),
    "classes": optional(as_count),
    "setting": as_setting,
    "metric": as_word,
    "value": as_real,
    "unit": one_of(UNITS),
    "note": str,
}
"""Column of the file -> how its text is read (ValueError: what was expected)."""


Rows = Mapping[str, Mapping[str, Any]]
COUNTS = ("attack.pool.size",)


def row_settings(
    settings: InversionSweep, table: str, *, by_target: Rows, by_variant: Rows, usual: Mapping[str, Any]
) -> dict[str, Any]:
    """Setting of a printed row (`PaperNumber.setting`) -> this cell's; None where no row can have it.

    by_target: table -> setting -> the attack's setting that names the target. by_variant: table -> variant -> leaves
    that it has otherwise than `usual`, the official ones ({}: of a data set that the table does not have).
    """
    factors: dict[str, Any] = {name: _factor(settings, role) for name, role in by_target.get(table, {}).items()}
    if table in by_variant:
        factors["variant"] = variant_of(resolved(settings), by_variant[table], usual) if usual else None
    return factors


def _factor(settings: InversionSweep, role: str) -> float | None:
    """The smoothing factor of the target that does a stage; None where it differs from the attacked one in more."""
    other = settings.swapped_targets().get(role)
    if other is not None and not _alike(settings, other):
        return None
    stated = (other or settings).recipe.stated_defense
    return stated.get("alpha") if stated and stated["kind"] in ("none", "label_smoothing") else None


def _alike(first: InversionSweep, other: InversionSweep) -> bool:
    """Whether two targets differ in their defense at most, as far as the training of others can be told."""
    if isinstance(first.recipe, ImportedClassifier) or isinstance(other.recipe, ImportedClassifier):
        return first.recipe.architecture == other.recipe.architecture and first.data == other.data
    trainings = [settings.recipe.model_dump(exclude={"defense"}) for settings in (first, other)]
    return trainings[0] == trainings[1] and first.data == other.data


def variant_of(ours: Mapping[str, Any], variants: Rows, usual: Mapping[str, Any]) -> str | None:
    """The variant whose leaves these are; None for a mixture.

    A count stands for the largest stated one that it reaches: a sweep at reduced counts keeps its rows, and departs.
    """
    varied = {key for changes in variants.values() for key in changes}
    for name, changes in variants.items():
        if all(_snapped(key, ours.get(key), variants, usual) == changes.get(key, usual.get(key)) for key in varied):
            return name
    return None


def _snapped(key: str, value: Any, variants: Rows, usual: Mapping[str, Any]) -> Any:
    if key not in COUNTS or not isinstance(value, int):
        return value
    stated = sorted(changes.get(key, usual[key]) for changes in variants.values())
    return max((printed for printed in stated if printed <= value), default=stated[0])
