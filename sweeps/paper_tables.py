"""The paper's Tables 1 to 13: the printed row that a recipe reproduces, and whether a sweep is set as the paper was.

The numbers lie in `paper/tables.csv`, one per line, as `paper/README.md` describes. They come from Struppek et al.,
"Be Careful What You Smooth For" (ICLR 2024). The official settings of every table and data set stand in
`paper/settings.json`, one value for each leaf of a sweep file, from the paper and, where it is silent, from its code. A
leaf that they do not name is either listed there as free, with the reason, or it is a departure: a new key of the
schema cannot be overlooked.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.registry import attack_class
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import ClassifierJudge
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.space import same_value
from smoothsweep.sweeps.training import DEPENDENT, Smoothing

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep


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
    """One printed number and the row it stands in."""

    table: str
    row: int
    """Position within its table, from 1; of two data sets side by side the second's rows follow the first's."""
    dataset: str
    image_size: int | None  # pixels, where stated
    architecture: str
    defense: str
    alpha: float | None
    beta: float | None
    lambda_input: float | None
    lambda_label: float | None
    samples_per_class: int | None  # None is all
    attack: str | None
    prior: str | None
    classes: int | None  # how many were attacked, where stated
    setting: Mapping[str, str]
    """What tells rows of one recipe apart in this table alone, such as the model that selected the results."""
    metric: str
    value: float  # as printed, fractions in [0, 1] for percentages
    decimals: int  # digits behind the point of `value` that the paper printed
    unit: str  # fraction, squared_l2 or plain
    note: str  # how the row was identified, where its label is lost or contradicted

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
    return [number for number in _numbers() if number.table == table]


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
def _numbers() -> tuple[PaperNumber, ...]:
    """Every line of the file: an empty cell is None, `all` images of a class too, `name=value;name=value` a mapping."""
    numbers = []
    with TABLES_FILE.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            values: dict[str, Any] = {name: None if text in ("", "all") else text for name, text in cells.items()}
            values |= {name: int(values[name]) for name in WHOLE if values[name]}
            values |= {name: float(values[name]) for name in DECIMAL if values[name]}
            values["setting"] = MappingProxyType(dict(part.split("=") for part in cells["setting"].split(";") if part))
            values |= {"note": cells["note"], "decimals": len(cells["value"].partition(".")[2])}
            numbers.append(PaperNumber(**values))
    return tuple(numbers)


TRAININGS = ("recipe", *(f"judges.{name}" for name, kind in JUDGES.items() if issubclass(kind, ClassifierJudge)))

OF_ATTACK = {"precision": "fp32"}


def resolved(settings: InversionSweep) -> dict[str, Any]:
    """Every leaf of the settings. Lists are leaves; so is the schedule of a defense, `recipe.defense.schedule`.

    A part that is absent is a leaf with None; of a classifier brought in only `imported` is a leaf.
    """
    leaves = _leaves(settings.model_dump(mode="json"), "")
    for part in TRAININGS:
        for name, (value, chooser, choice) in DEPENDENT.items():
            chosen = not chooser or leaves.get(f"{part}.{chooser}") == choice
            if leaves.get(f"{part}.{name}", ...) is None and chosen:
                leaves[f"{part}.{name}"] = value
    for name, value in OF_ATTACK.items() if settings.attack is not None else ():
        if leaves.get(f"attack.{name}") is None:
            leaves[f"attack.{name}"] = value
    if published := PUBLISHED_NAMES.get(leaves["data.kind"]):
        usual = {"data.classes": published.classes[0], "data.pictures": published.pictures}
        leaves |= {name: value for name, value in usual.items() if leaves[name] is None}
    if settings.recipe.poison is not None:
        poison = settings.recipe.poison.built
        parameters = ("size", poison.side) if poison.kind == "badnets" else ("strength", poison.opacity)
        leaves[f"recipe.poison.{parameters[0]}"] = parameters[1]
    defense = settings.recipe.defense
    if defense is not None:
        leaves = {key: value for key, value in leaves.items() if not key.startswith("recipe.defense.")}
        resolved_defense = defense.resolved(settings.protocol)
        parameters = resolved_defense.pop("parameters", {})
        for name in ("revision", "plugin"):  # which computation it is, no setting
            resolved_defense.pop(name, None)
        leaves |= {f"recipe.defense.{name}": value for name, value in (resolved_defense | parameters).items()}
        if defense.built.usual_readouts and leaves.get("attack.readout", ...) is None:
            leaves["attack.readout"] = defense.built.usual_readouts[settings.protocol]
    return leaves


def _leaves(node: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, Mapping):
            leaves |= _leaves(value, f"{prefix}{name}.")
        else:
            leaves[prefix + name] = value
    return leaves


SETTINGS_FILE = Path(__file__).resolve().parent / "paper" / "settings.json"

PRIOR = "StyleGAN2 of FFHQ, 1024 pixels"
OF_THE_ATTACK = "attack_{attack}"  # a group for each attack of the table
KINDS = ("data", "prior", "attack")
"""Parts whose keys depend on their kind: of another kind than the paper's, only what both have is compared."""

MOST_SHOWN = 8  # values of a list

LOMMA_CLASSES = tuple(range(500))

CLEAN_DIFFERS = {
    "fid": "protocol clean feeds the network images in its own range; the paper's FID fed it [-3, 1]",
    "dist_eval": "protocol clean measures clipped 8-bit images; the paper's distance is of unclipped ones",
}
"""Metric -> why its value under protocol clean is no neighbour of the paper's."""

SPREAD = "the paper does not say what its plus-minus spreads over; ours spreads over classes"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How one cell of a sweep stands to a table of the paper.

    Attributes:
        axes: Its recipe, see `recipe_axes`.
        departures: See `departures`.
        incomparable: Metric -> why our number and the printed one do not measure the same, whatever their values.
        columns: Metric -> which of ours it is, where that has another name.
    """

    axes: Mapping[str, Any] | None
    departures: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


def standing(settings: InversionSweep, dataset: str, table: str) -> Standing:
    """Everything a report needs to set one cell beside a table. Raises InputError for a table that is not there."""
    return Standing(
        axes=recipe_axes(settings, dataset, table),
        departures=departures(settings, dataset, table),
        incomparable=incomparable(settings, table),
        columns=_own_columns(settings, table),
    )


def _own_columns(settings: InversionSweep, table: str) -> Mapping[str, str]:
    """Metric of the table -> our column of what the table really prints."""
    return attack_class(settings.attack.kind).paper_columns if table == "8" and settings.attack is not None else {}


def incomparable(settings: InversionSweep, table: str) -> dict[str, str]:
    """Metric -> why this cell's value and the paper's do not measure the same."""
    reasons = {"attack_acc1_std": SPREAD} | (CLEAN_DIFFERS if settings.protocol == "clean" else {})
    evaluator, embedder = (settings.judges.settings.get(name) for name in ("evaluator", "embedder"))
    if table == "8":
        measured = _own_columns(settings, table)
        return {name: why for name, why in (reasons | _of_other_reports(settings)).items() if name not in measured}
    if evaluator is not None and evaluator.architecture != "inception_v3":
        reasons["dist_eval"] = f"features of {evaluator.architecture}; the paper's are of Inception-v3"
    if embedder is not None and EMBEDDERS[embedder.name].of_paper is None:
        papers = next(kind.of_paper for kind in EMBEDDERS.values() if kind.of_paper)
        reasons["dist_face"] = f"features of {embedder.name}; the paper's are of {papers}"
    return reasons


def _of_other_reports(settings: InversionSweep) -> dict[str, str]:
    """What the evaluations of the low-resolution attacks count otherwise than our judges."""
    reasons = {"attack_acc5_std": SPREAD}
    columns = _own_columns(settings, "8")
    if "attack_acc5" in columns:  # of the last image alone: evaluated by LOMMA's code
        if settings.classes != LOMMA_CLASSES or settings.protocol != "paper":
            reasons["dist_knn"] = (
                "the paper's sums over labels below 300 and divides by the images of all, 500 people "
                "as its digits show: that is protocol paper with classes 0 to 499"
            )
    elif not columns:
        reasons["dist_knn"] = "the paper's is of pictures that are each stretched to the whole range"
    evaluator = settings.judges.settings.get("evaluator")
    if evaluator is not None and evaluator.architecture != "ir50_112":
        reasons["dist_knn"] = (
            f"features of {evaluator.architecture}; the paper's are of the attacks' FaceNet (ir50_112)"
        )
    return reasons


def recipe_axes(settings: InversionSweep, dataset: str, table: str) -> dict[str, Any] | None:
    """The recipe of one cell as `matching` reads it, for a table of that data set.

    None where the recipe cannot be told: an imported target whose defense is not stated. Axes that the table leaves
    empty in all of its rows (the attack in Table 11) are left out; those of its own are there: `_factor`, `_variant`.
    """
    recipe = settings.recipe
    stated = recipe.stated_defense
    if stated is None:
        return None
    axes = {
        "dataset": dataset,
        "architecture": recipe.architecture,
        "defense": stated["kind"],
        **{name: stated.get(name) for name in ("alpha", "beta", "lambda_input", "lambda_label")},
        "samples_per_class": settings.data.samples_per_class,
        "attack": settings.attack.kind if settings.attack is not None else None,
    }
    if any("trigger" in number.setting for number in paper_rows(table)):
        axes["trigger"] = recipe.poison.kind if recipe.poison is not None else "clean"
    used = {name for number in paper_rows(table) for name, value in number.axes.items() if value is not None}
    named = {name: value for name, value in axes.items() if name in used or (value is not None and name != "attack")}
    named |= {name: _factor(settings, role) for name, role in _settings()["rows_by_target"].get(table, {}).items()}
    return named | ({"variant": _variant(settings, dataset, table)} if table in _settings()["rows_by_variant"] else {})


def departures(settings: InversionSweep, dataset: str, table: str) -> tuple[str, ...]:
    """Where a cell's settings leave the official ones for this table, one phrase each: key, ours, the paper's.

    Every leaf of the resolved settings is compared (`resolved`), those apart that `free_keys` lists. A judge that the
    cell does not have measures nothing and departs from nothing. Raises InputError for a table or data set that the
    paper does not have.
    """
    ours, paper = resolved(settings), official(settings, dataset, table)
    free, skipped = free_keys(table), _not_comparable(ours, paper)
    imported = [part for part in TRAININGS if f"{part}.imported" in ours]
    departures_found = [f"{part} imported (its training is not compared with the paper's)" for part in imported]
    for key in dict.fromkeys([*paper, *ours]):
        if key in skipped or (key not in paper and free(key)):
            continue
        mine, theirs = ours.get(key), paper.get(key)
        if not same_value(mine, theirs):
            papers = "not stated" if key not in paper else PRIOR if key == "prior.kind" else _shown(theirs)
            departures_found.append(f"{key} {_shown(mine)} (paper: {papers})")
    return tuple(departures_found)


def official(settings: InversionSweep, dataset: str, table: str) -> dict[str, Any]:
    """Leaf -> the official value for a cell of this defense: the table's settings, and what follows from the defense
    (its smoothing schedule as the official code has it, how its answers are read)."""
    stated = published_settings(dataset, table, settings.attack.kind if settings.attack is not None else None)
    if table in _settings()["rows_by_variant"]:
        stated |= _settings()["rows_by_variant"][table].get(_variant(settings, dataset, table), {})
    if settings.recipe.poison is not None and any("trigger" in number.setting for number in paper_rows(table)):
        stated |= _settings()["groups"][f"poison_{settings.recipe.poison.kind}"]
    defense = settings.recipe.defense
    if defense is None or not any(key.startswith("recipe.") for key in stated):
        return stated
    schedule = Smoothing(alpha=defense.final_alpha).curve("paper")["schedule"]
    readout = defense.built.usual_readouts.get("paper")  # MID's noise is left on
    attacked = {"attack.readout": readout} if "attack.kind" in stated else {}
    own = _settings()["groups"].get(f"defense_{defense.kind}", {})
    return stated | own | {"recipe.defense.schedule": schedule} | attacked


def published_settings(dataset: str, table: str, attack: str | None = None) -> dict[str, Any]:
    """Leaf -> its official value in this table and data set, whatever the defense; of a table with several attacks
    those of `attack`, or none of any. Raises InputError for an unknown table."""
    known = datasets_of(table)
    groups, free = _settings()["groups"], _settings()["free_in_table"].get(table, {})
    merged: dict[str, Any] = {}
    for name in _settings()["tables"][table] if dataset in known else ():
        if name == OF_THE_ATTACK:
            merged |= _of_attack(table, attack) if attack else {}
        else:
            merged |= groups[name.replace("{dataset}", dataset)]
    return {key: value for key, value in merged.items() if key not in free}


def _of_attack(table: str, kind: str) -> dict[str, Any]:
    """The attack's own settings, or, of one that the table does not have, which it has."""
    attacks = list(dict.fromkeys(number.attack for number in paper_rows(table)))
    if kind not in attacks:
        return {"attack.kind": ", ".join(filter(None, attacks))}
    return _settings()["groups"][OF_THE_ATTACK.replace("{attack}", kind)]


def free_keys(table: str) -> Callable[[str], bool]:
    """Whether a leaf may be anything beside this table: it changes no number, or the paper leaves it open."""
    listed = [*_settings()["free"], *_settings()["free_in_table"].get(table, {})]
    exact = frozenset(listed)
    below = tuple(key.removesuffix("*") for key in listed if key.endswith(".*"))
    return lambda key: key in exact or key.startswith(below)


def _not_comparable(ours: Mapping[str, Any], paper: Mapping[str, Any]) -> set[str]:
    """Leaves that only one side can have: of parts that are absent, brought in, or of another kind than the paper's."""
    absent = {part for part in JUDGES if f"judges.{part}" in ours}
    parts = [f"judges.{part}." for part in absent]
    parts += ["recipe.poison."] if "recipe.poison" in ours else []  # the rows without a trigger
    parts += [f"{part}." for part in TRAININGS if f"{part}.imported" in ours]
    skipped = {key for key in (*ours, *paper) if key.startswith(tuple(parts))} if parts else set()
    skipped |= {f"judges.{part}" for part in absent}
    for part in KINDS:
        if ours.get(f"{part}.kind") != paper.get(f"{part}.kind", ours.get(f"{part}.kind")):
            skipped |= {key for key in ours.keys() ^ paper.keys() if key.startswith(f"{part}.")}
            if part == "prior":  # the public images are what it was fitted on
                skipped |= {key for key in (*ours, *paper) if key.startswith("public.")}
    # What an optimizer, a learning rate schedule or a network does not have: which one it is departs already.
    return skipped | {key for key in ours if ours[key] is None and key.rpartition(".")[2] in DEPENDENT}


@lru_cache(maxsize=1)
def _settings() -> dict[str, Any]:
    return json.loads(SETTINGS_FILE.read_text(encoding="utf-8"))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join([str(value["kind"]), *(f"{k} {_shown(v)}" for k, v in value.items() if k != "kind")])
    if isinstance(value, list | tuple):
        more = [f"{len(value)} values"] if len(value) > MOST_SHOWN else []
        return f"[{', '.join([*map(_shown, value[: 3 if more else None]), *(['...'] if more else []), *more])}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


COUNTS = ("attack.pool.size",)


def _variant(settings: InversionSweep, dataset: str, table: str) -> str | None:
    """The row's variant of the attack that a cell is, by the leaves that it has otherwise; None for a mixture.

    A count stands for the largest stated one that it reaches: a sweep at reduced counts keeps its rows, and departs.
    """
    variants, usual = _settings()["rows_by_variant"][table], published_settings(dataset, table)
    ours, varied = resolved(settings), {key for changes in variants.values() for key in changes}
    for key in varied.intersection(COUNTS) if usual else ():
        if isinstance(ours.get(key), int):
            stated = sorted(changes.get(key, usual[key]) for changes in variants.values())
            ours[key] = max((printed for printed in stated if printed <= ours[key]), default=stated[0])
    same = (
        name
        for name, changes in variants.items()
        if all(ours.get(key) == changes.get(key, usual.get(key)) for key in varied)
    )
    return next(same, None) if usual else None


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
