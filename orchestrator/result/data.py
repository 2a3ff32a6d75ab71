"""What a result is made from: rows, curves and pictures of a sweep, and its search as a record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS
from smoothsweep.core.metrics.comparisons import ACCURACY_MARGIN
from smoothsweep.core.metrics.frontier import hypervolume, pareto_mask
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.sweeps.paper_tables import Standing
from smoothsweep.sweeps.search import SeedLooks


class Measured(NamedTuple):
    """A number with its interval; null (None or NaN) where it was not measured, or no interval is known.

    Attributes:
        n: Seeds that it is over, 0 where that says nothing.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


Status = Literal["done", "failed", "open"]


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A column of the results that the search drives up ("max") or down ("min")."""

    column: str
    way: Literal["max", "min"]

    @property
    def spec(self) -> Metric | None:
        """None for a column that is no metric."""
        return BY_KEY.get(self.column)

    @property
    def label(self) -> str:
        return self.spec.label if self.spec else self.column.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class ProposalRow:
    """One proposal.

    Attributes:
        values: Short name of a dimension -> value in words, without those that do not apply.
        key: What makes it the same recipe as another proposal.
        rung: The cheap attack it met, None for the full one.
        objectives: Column -> value, None where it was not measured.
        recipe: Its label in this report, where it met the full attack.
        name: What a reader calls it, whatever it met; empty without a name of its own.
        kept: Whether its rung let it through, None where that is not decided or no rung.
        audited: It met the full attack though its rung had dropped it.
        feasible: It meets the constraints.
        seeds: How many of the sweep's seeds it met, None for all.
        settings: The recipe's values as numbers where they are numbers, by which a figure places them.
    """

    number: int
    values: Mapping[str, str]
    key: str
    rung: int | None
    status: Status
    objectives: Mapping[str, float | None]
    device_hours: float
    recipe: str | None = None
    name: str = ""
    kept: bool | None = None
    audited: bool = False
    feasible: bool = True
    seeds: int | None = None
    settings: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it met the full attack under all seeds."""
        return self.rung is None and self.seeds is None

    def point(self, objectives: Sequence[Objective]) -> list[float] | None:
        """Its objectives in their order, None where any is missing."""
        numbers = [self.objectives.get(objective.column) for objective in objectives]
        values = [float(value) for value in numbers if value is not None and value == value]
        return values if len(values) == len(numbers) else None


@dataclass(frozen=True, kw_only=True)
class Importance:
    """How the variance of an objective over the tried recipes divides among the parameters.

    Attributes:
        recipes: How many it rests on.
        shares: (name of the parameter, fraction), the largest first.
    """

    objective: str
    recipes: int
    shares: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class SearchView:
    """A search as the report shows it.

    Attributes:
        space, rungs, constraints, budget: These parts of the search in words, a line each.
        stopped_by: What ended it, in the record's words ("recipes", "exhausted", "budget: ..."); None while unfinished.
        asked: How many recipes it may propose, if limited.
        importances: One for each objective with enough recipes.
    """

    strategy: str
    objectives: tuple[Objective, ...]
    proposals: tuple[ProposalRow, ...]
    space: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    budget: str = ""
    rungs: tuple[str, ...] = ()
    asked: int | None = None
    spent_device_hours: float = 0.0
    stopped_by: str | None = None
    importances: tuple[Importance, ...] = ()

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions that any proposal has a value for, in order of appearance."""
        return tuple(dict.fromkeys(name for proposal in self.proposals for name in proposal.values))

    @property
    def full(self) -> tuple[ProposalRow, ...]:
        """Proposals that met the full attack under all seeds."""
        return tuple(proposal for proposal in self.proposals if proposal.is_full)

    @property
    def on_rungs(self) -> tuple[tuple[int, tuple[ProposalRow, ...]], ...]:
        """(rung, its proposals), cheapest rung first."""
        cheap = sorted(((p.rung, p.number, p) for p in self.proposals if p.rung is not None), key=itemgetter(0, 1))
        return tuple((rung, tuple(p for *_, p in members)) for rung, members in groupby(cheap, key=itemgetter(0)))


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Hypervolume (or, with one objective, the best value) over the device-hours spent.

    Attributes:
        met, hours, values: A step for each proposal of the full attack under all seeds, in the order of the proposals.
        reference: The point that the hypervolume is measured from, empty with one objective.
        best: Which proposals no other beats, by number.
    """

    met: tuple[ProposalRow, ...]
    hours: tuple[float, ...]
    values: tuple[float, ...]
    reference: tuple[float, ...]
    best: tuple[int, ...]


def same_recipe(values: Mapping[str, Any]) -> str:
    """A key that two proposals share where their values agree."""
    return json.dumps(values, sort_keys=True, default=str)


def progress(view: SearchView) -> Progress | None:
    """How the search went; None before any feasible recipe met the full attack."""
    spent = accumulate(proposal.device_hours for proposal in view.proposals)
    steps = [
        (proposal, hours, point)
        for proposal, hours in zip(view.proposals, spent, strict=True)
        if proposal.is_full
        and proposal.status == "done"
        and proposal.feasible
        and (point := proposal.point(view.objectives)) is not None
    ]
    if not steps:
        return None
    met, hours, points = zip(*steps, strict=True)
    ways, reference = [objective.way for objective in view.objectives], ()
    if len(ways) == 1:
        cumulate = np.maximum if ways[0] == "max" else np.minimum
        values = cumulate.accumulate(np.asarray(points)[:, 0]).tolist()
    else:
        reference = tuple(map(_worst, view.objectives, zip(*points, strict=True)))
        values = [hypervolume(points[:many], reference, ways) for many in range(1, 1 + len(points))]
    best = tuple(proposal.number for proposal, on_front in zip(met, pareto_mask(points, ways), strict=True) if on_front)
    return Progress(met=met, hours=hours, values=tuple(values), reference=reference, best=best)


def _worst(objective: Objective, seen: Sequence[float]) -> float:
    """The end of a fraction's range; else the worst value seen."""
    percent = objective.spec is not None and objective.spec.unit == "percent"
    ends = (0.0, 1.0) if percent else (min(seen), max(seen))
    return ends[objective.way == "min"]


def paired_with_full(view: SearchView, rung: int, column: str) -> list[tuple[float, float]]:
    """(by the rung's cheap attack, by the full attack) of every recipe that met both, by one objective."""
    full = {p.key: p.objectives.get(column) for p in view.full if p.status == "done"}
    pairs = []
    for proposal in dict(view.on_rungs).get(rung, ()):
        cheap, dear = proposal.objectives.get(column), full.get(proposal.key)
        if cheap is not None and dear is not None and cheap == cheap and dear == dear:
            pairs.append((float(cheap), float(dear)))
    return pairs


STATUSES = ("done", "failed", "missing")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A field the sweep varies; `key` is its column in `results`.

    Attributes:
        role: "recipe" is the defender's choice (alpha, schedule, defense), "attack" the attacker's (attack loss,
            prior). Recipes are compared within one attack.
        label: How a reader calls it.
        values: How a reader calls its values.
        bare: The values speak for themselves ("MID"), so that a recipe's name leaves the axis's name out.
        defense: The axis is part of the defense; recipes that differ in other axes of the defender share no
            accuracy-leak curve.
        defenses: How a reader calls a whole defense ("smoothing −0.2, ramp"), by the values of all axes that have this
            mapping, as `defense_key` has them. Empty unless the axis sets one parameter of a defense.
    """

    key: str
    label: str = ""
    role: Literal["recipe", "attack"] = "recipe"
    values: Mapping[Any, str] = field(default_factory=dict)
    bare: bool = False
    defense: bool = False
    defenses: Mapping[tuple[Any, ...], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.label or self.key.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One picture of a contact sheet, uint8 [H, W, 3]. recognised: whether the sheet's judge takes it for the class
    (None: not judged)."""

    pixels: np.ndarray
    recognised: bool | None = None


@dataclass(frozen=True, kw_only=True)
class SheetRow:
    """One class: a training image beside one reconstruction per column (None: there is none)."""

    name: str
    real: Tile
    reconstructions: tuple[Tile | None, ...]


@dataclass(frozen=True, kw_only=True)
class ContactSheet:
    """Classes in rows, recipes in columns. Use recipe labels (`recipe_label`) as columns to share colours.

    judge: who says whether a tile is recognised.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[SheetRow, ...]
    caption: str = ""
    judge: str = "independent judge"


@dataclass(frozen=True, kw_only=True)
class FeatureView:
    """How one target places its training images, as its stage left it.

    Attributes:
        points: A row per image mapped, `class`, `tsne_x`, `tsne_y`, `pca_x`, `pca_y`.
        distances: A row per training image, `intra`, `inter`, `intra_nearest`, `inter_nearest` in [0, 1], NaN where
            there is none.
    """

    points: pd.DataFrame
    distances: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class StageLink:
    """A stage of a trial and where its manifest lies, relative to the report.

    devices: how many it held while it ran.
    """

    stage: str
    path: str
    seconds: float
    devices: float = 1.0


@dataclass(frozen=True, kw_only=True)
class PaperReference:
    """The table of the paper that the sweep reproduces, and how every trial's cell stands to it (trial -> standing)."""

    table: str
    datasets: tuple[str, ...]
    standings: Mapping[str, Standing]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportData:
    """A whole sweep.

    Raises ValueError where a column is missing, a status is unknown, a cell holds a seed twice, or a fraction is none.

    Attributes:
        results: One row per trial: `trial`, `seed`, `status` (done | failed | missing), `failure` (sentence or null),
            one column per axis, and any columns of `METRICS` (null: not measured). Other columns are kept in
            results.parquet only.
        per_class: `trial`, `class` (name), and hit fractions `attack_acc1` and/or `embedder_acc1`; None: no class
            values.
        baseline: Axis -> value of the reference; an axis it does not name takes the value of the cell compared.
        reasons: Metric -> one sentence on why it was not measured.
        primary: The metric that decides; by default the independent judge where measured, else the evaluator.
        min_test_acc: The accuracy the reader needs, if stated.
        accuracy_margin: A loss of test accuracy below it counts as none.
        histories: Recipe label -> a row per epoch with `epoch` (from 0) and any of `alpha` (what the loss really used),
            `loss`, `train_acc`, `test_acc`.
        features: Recipe label -> how its target places the training images.
        gradient_curves: Recipe label -> rows loss, quantity, step, mean, low, high of its gradient stability.
        links: Trial -> its stages.
        paper: The table that the sweep reproduces, if any.
        defenses: Trial -> its defense as the sweep file gives it (`kind`, its parameters, `smoothing`); with them the
            report groups recipes by defense. Without, or for trials not named, it does not.
        fresh: Rows like those of `results` of recipes that were audited again with other seeds.
        others: Rows of trials that only their cost and their manifests are shown of (cheap attacks).
        search: What was searched, if anything.
        spent: What the runs of the sweep took: devices held times seconds, and seconds on the wall.
        real_images: How many test images the judges were tried on.
        people: Classes of the private data, attacked or not.
        asked: Finished trial -> queries that the parts of its attack sent to its target, once for all classes.
        looks: When recipes got more seeds.
        warnings: Sentences on attacks that can find nothing.
    """

    title: str
    results: pd.DataFrame
    axes: tuple[Axis, ...]
    protocol: Literal["clean", "paper"] = "clean"
    intro: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    per_class: pd.DataFrame | None = None
    baseline: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    primary: str | None = None
    min_test_acc: float | None = None
    accuracy_margin: float = ACCURACY_MARGIN
    histories: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    features: Mapping[str, FeatureView] = field(default_factory=dict)
    gradient_curves: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    sheets: tuple[ContactSheet, ...] = ()
    links: Mapping[str, Sequence[StageLink]] = field(default_factory=dict)
    paper: PaperReference | None = None
    defenses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fresh: pd.DataFrame | None = None
    others: pd.DataFrame | None = None
    search: SearchView | None = None
    spent: tuple[float, float] | None = None
    real_images: int | None = None
    people: int | None = None
    asked: Mapping[str, float] = field(default_factory=dict)
    looks: SeedLooks | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        keys = [axis.key for axis in self.axes]
        _need_columns(self.results, ["trial", "seed", "status", *keys], "results")
        # Cells may share a trial (two spellings of one recipe), but no cell holds a seed twice.
        cells = self.results[keys].map(str).agg(" ".join, axis=1) if keys else ""
        repeated = self.results[self.results.assign(cell=cells).duplicated(["cell", "seed"])]
        if len(repeated):
            raise ValueError("results: trial {trial} repeats seed {seed} of its cell".format(**repeated.iloc[0]))
        _check_fractions(self.results, "results")
        if self.per_class is not None:
            _need_columns(self.per_class, ["trial", "class"], "per_class")
            _check_fractions(self.per_class, "per_class")
            if self.per_class.duplicated(["trial", "class"]).any():
                raise ValueError("per_class: expected each class once per trial")
        standings = self.results["trial"] if self.paper is None else self.paper.standings
        for name, valid, got in (
            ("status", STATUSES, self.results["status"]),
            ("baseline", keys, self.baseline),
            ("primary", BY_KEY, [self.primary] if self.primary else []),
            ("reasons", BY_KEY, self.reasons),
            ("protocol", ("clean", "paper"), [self.protocol]),
            ("trial with a standing in the paper", list(standings), self.results["trial"]),
        ):
            wrong = [value for value in got if value not in valid]
            if wrong:
                raise ValueError(f"{name}: expected one of {', '.join(valid)}, got {wrong[0]}")

    @property
    def judged_classes(self) -> int | None:
        """Number of classes with a hit rate, None without class values."""
        if self.per_class is None or not len(self.per_class):
            return None
        return int(self.per_class["class"].nunique())

    @property
    def every_trial(self) -> pd.DataFrame:
        """Rows of all trials, those of cheap attacks and of fresh seeds included."""
        known = [rows for rows in (self.results, self.fresh, self.others) if rows is not None and len(rows)]
        return pd.concat(known, ignore_index=True) if len(known) > 1 else self.results


def _need_columns(frame: pd.DataFrame, columns: Sequence[str], where: str) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"{where}: expected a column {missing[0]!r}, got {list(frame.columns)}")


def _check_fractions(frame: pd.DataFrame, where: str) -> None:
    """A percentage where a fraction belongs is a hundredfold lie in the table: refuse it here."""
    for key in frame.columns:
        if (key in BY_KEY and BY_KEY[key].unit == "percent") or key in CLASS_METRICS:
            values = pd.to_numeric(frame[key]).dropna()
            outside = values[(values < 0) | (values > 1)]
            if len(outside):
                raise ValueError(f"{where}: {key} is a fraction in [0, 1], got {outside.iloc[0]:g}")
