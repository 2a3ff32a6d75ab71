"""The paper's Tables 1 to 13 as data, and the printed row that one of our recipes reproduces.

The numbers lie in `paper/tables.csv`, one per line, as `paper/README.md` describes. They come from Struppek et al.,
"Be Careful What You Smooth For" (ICLR 2024).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    pass


TABLES_FILE = Path(__file__).resolve().parent / "paper" / "tables.csv"
TABLES = tuple(str(number) for number in range(1, 14))
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

WHOLE = ("row", "image_size", "samples_per_class", "classes")
DECIMAL = ("alpha", "beta", "lambda_input", "lambda_label", "value")
"""Columns of numbers."""


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
    with TABLES_FILE.open(encoding="utf-8", newline="") as file:
        return tuple(map(_number, csv.DictReader(file)))


def _number(cells: Mapping[str, str]) -> PaperNumber:
    """A line of the file: an empty cell is None, `all` images of a class too, `name=value;name=value` a mapping."""
    values: dict[str, Any] = {name: text or None for name, text in cells.items()}
    values |= {name: int(cells[name]) for name in WHOLE if cells[name] not in ("", "all")}
    values |= {name: float(cells[name]) for name in DECIMAL if cells[name]}
    setting = MappingProxyType(dict(part.split("=") for part in cells["setting"].split(";") if part))
    values |= {"setting": setting, "note": cells["note"], "decimals": len(cells["value"].partition(".")[2])}
    values["samples_per_class"] = None if cells["samples_per_class"] == "all" else values["samples_per_class"]
    return PaperNumber(**values)
