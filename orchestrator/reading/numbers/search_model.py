"""The search of a sweep as reports read it: proposals, objectives, and what ended it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.metrics.frontier import hypervolume, pareto_mask
from smoothsweep.core.metrics.metric import Metric

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
