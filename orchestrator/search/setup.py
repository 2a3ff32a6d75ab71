"""What every strategy of a search knows: outcomes of recipes, the space and places in it, how recipes are drawn.

A strategy is a plain function of the proposals so far and of outcomes; it keeps nothing between calls. So the same
search proposes the same recipes whatever was killed, resumed, or finished in another order.

An objective of a recipe is the mean over its seeds of the worst case over its attacks: the attacker picks the attack.
So of a column that is to be small the largest value counts under each seed, and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import Constraint, Direction, Rung
from smoothsweep.sweeps.space import Dimension, Positions, Space, Values
from smoothsweep.sweeps.strategies import STRATEGIES

REDRAWS = 200  # draws in a row that may be invalid or known already before the space counts as used up
OPEN, DONE, FAILED = "open", "done", "failed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """objectives, measured: column -> value, None where it was not measured; measured holds the constraints' too.

    Attributes:
        status: Open (some trial is missing), done, or failed (some trial failed, or an objective has no value).
        violations: Constraint -> how far it is missed, at most 0 where it is met.
        by_seed: Seed -> column -> the worst case over the attacks, of objectives and constraints; {} unless done.
    """

    status: str
    objectives: Mapping[str, float | None] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    by_seed: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met."""
        return all(miss <= 0 for miss in self.violations.values())


@dataclass(frozen=True, kw_only=True)
class Aims:
    """Objectives and constraints of a search."""

    objectives: Mapping[str, Direction]
    constraints: Mapping[str, Constraint] = field(default_factory=dict)

    def outcome(
        self, values: Mapping[str, float | None], by_seed: Mapping[int, Mapping[str, float]] | None = None
    ) -> Outcome:
        """The outcome of a recipe whose columns have these values, and these under each seed."""
        known = all(values.get(column) is not None for column in (*self.objectives, *self.constraints))
        return Outcome(
            status=DONE if known else FAILED,
            objectives={column: values.get(column) for column in self.objectives},
            violations={
                column: constraint.violation(value)
                for column, constraint in self.constraints.items()
                if (value := values.get(column)) is not None
            },
            by_seed=(by_seed or {}) if known else {},
        )

    def ways(self) -> dict[str, Direction]:
        """Every column that is looked at -> the direction a defender wants: the worst case is the other."""
        bounds = self.constraints.items()
        ways: dict[str, Direction] = {key: "min" if bound.at_least is None else "max" for key, bound in bounds}
        return {**ways, **self.objectives}


def read_outcome(trials: Sequence[Trial], store: Store, aims: Aims, failed: Mapping[str, str] | set[str]) -> Outcome:
    """Outcome of a proposal with these trials. failed: ids of trials that have failed."""
    if (status := status_of(trials, store, failed)) != DONE:
        return Outcome(status=status, objectives=dict.fromkeys(aims.objectives))
    rows = [(trial.seed, metrics_of(trial, store)) for trial in trials if not trial.is_control]
    ways = aims.ways()
    by_column = {column: worst_by_seed(rows, column, way) for column, way in ways.items()}
    values = {column: worst_mean(rows, column, way) for column, way in ways.items()}
    by_seed = {seed: {column: by_column[column].get(seed, math.nan) for column in ways} for seed, _ in rows}
    return aims.outcome(values, by_seed)


def status_of(trials: Sequence[Trial], store: Store, failed: Mapping[str, str] | set[str]) -> str:
    """Status of trials together: done, failed where all have ended and some without a result, else open."""
    complete = {trial.id: all(store.has(stage) for stage in trial.stages) for trial in trials}
    if all(complete.values()):
        return DONE
    ended = all(complete[trial.id] or trial.id in failed for trial in trials)
    return FAILED if ended else OPEN


def metrics_of(trial: Trial, store: Store) -> dict[str, Any]:
    """All metrics of a finished trial."""
    metrics: dict[str, Any] = {}
    for stage in trial.stages:
        metrics.update(store.metrics(stage))
    return metrics


def worst_mean(rows: Sequence[tuple[int, Mapping[str, Any]]], column: str, way: Direction) -> float | None:
    """Mean over seeds of the worst case over attacks; None if some trial has no value. rows: (seed, metrics)."""
    worst = worst_by_seed(rows, column, way)
    return fmean(worst.values()) if worst else None


def worst_by_seed(rows: Sequence[tuple[int, Mapping[str, Any]]], column: str, way: Direction) -> dict[int, float]:
    """Seed -> the worst case over attacks; empty if some trial has no value. rows: (seed, metrics)."""
    by_seed: dict[int, list[float]] = {}
    for seed, metrics in rows:
        value = metrics.get(column)
        if value is None or value != value:
            return {}
        by_seed.setdefault(seed, []).append(float(value))
    worst = max if way == "min" else min
    return {seed: worst(values) for seed, values in by_seed.items()}


Outcomes = Mapping[int, Outcome]  # by number of the proposal; those without are open


class Wait:
    """Nothing can be proposed before more of what was proposed has come out."""


@dataclass(kw_only=True)
class Setup:
    """What a strategy needs to know of its search.

    Attributes:
        identity: Recipe -> a string, the same for two recipes that are the same work; raises InputError for one that is
            not valid.
        recipes: How many to propose at most, None where the space says it.
        lag: How many may be open at once, None for any number; of a strategy that learns, proposal i is made of the
            outcomes of those up to i - lag.
        baseline: Tried first, {} for none.
        stated: All that the baseline's recipe has at keys of the space, also where it does not name them.
        settings: An instance of the strategy's own settings (`StrategyKind.settings`), None where it has none.
        sampler: Sampler of `optuna`, gp or tpe.
        seeds: How many seeds the sweep has.
        first_seeds: How many of them a recipe of `noise_aware` meets at first.
    """

    space: Space
    aims: Aims
    identity: Callable[[Values], str]
    seed: int = 0
    recipes: int | None = None
    lag: int | None = None
    baseline: Values = field(default_factory=dict)
    stated: Values = field(default_factory=dict)
    settings: Any = None
    sampler: str = "gp"
    seeds: int = 1
    first_seeds: int = 1
    rungs: tuple[Rung, ...] = ()
    audit: int = 0
    _identities: dict[int, str] = field(default_factory=dict)

    def known(self, proposals: Sequence[Proposal]) -> set[str]:
        """The identities of the recipes proposed so far."""
        for proposal in proposals[len(self._identities) :]:
            self._identities[proposal.number] = self.identity(proposal.values)
        return {self._identities[proposal.number] for proposal in proposals}

    def fresh(self, proposals: Sequence[Proposal], draw: Callable[[int], Values]) -> Values | None:
        """The first draw (of the attempt's number) that is valid and not known; None if REDRAWS find nothing new.

        Raises InputError if all of them are invalid.
        """
        known, reason, valid = self.known(proposals), "", 0
        for attempt in range(REDRAWS):
            values = draw(attempt)
            try:
                identity = self.identity(values)
            except InputError as error:
                reason = reason or str(error)
                continue
            valid += 1
            if identity not in known:
                return values
        if not valid:
            raise InputError(f"search.space: expected valid recipes, got none in {REDRAWS} draws; the first: {reason}")
        return None

    def random(self, number: int, attempt: int) -> Values:
        """A random recipe that depends on the seed, the proposal's number and the attempt alone."""
        return self.space.sample(np.random.default_rng([self.seed, number, attempt]))


Strategy = Callable[[Setup, Sequence[Proposal], Outcomes], "Proposal | Wait | None"]


def settled(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> bool:
    """Whether the proposals up to i - lag have come out, so that the next one, i, may be made."""
    if setup.lag is None:
        return True
    return all(is_settled(outcomes, number) for number in range(len(proposals) - setup.lag + 1))


def is_settled(outcomes: Outcomes, number: int) -> bool:
    """Whether a proposal has come out."""
    return number in outcomes and outcomes[number].status != OPEN


def all_tried(setup: Setup, proposals: Sequence[Proposal]) -> bool:
    """Whether there are as many recipes as may be tried."""
    return setup.recipes is not None and setup.recipes <= sum(proposal.of is None for proposal in proposals)


def baseline_first(propose: Strategy) -> Strategy:
    """The strategy with the sweep's baseline before everything else, so that there is something to compare with."""

    def with_baseline(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
        if setup.baseline and not proposals:
            return Proposal(number=0, values=dict(setup.baseline), origin="baseline")
        if all_tried(setup, proposals) and not (setup.rungs or any(proposal.seeds for proposal in proposals)):
            return None
        return propose(setup, proposals, outcomes) if settled(setup, proposals, outcomes) else Wait()

    return with_baseline


def strategy(name: str) -> Strategy:
    """The strategy of that name, which tries the baseline first; InputError naming the valid ones otherwise."""
    if name not in STRATEGIES:
        raise InputError(f"search.strategy: expected one of {', '.join(STRATEGIES)}, got {name!r}")
    return baseline_first(STRATEGIES[name].propose)


def place(setup: Setup, values: Values) -> Positions | None:
    """A recipe's position on every dimension of the space; the middle on those that it does not have.

    Where a baseline names a part of them only, the others are as the sweep file has them. None for what lies outside.
    """
    places: Values = {}
    positions: Positions = {}
    for dimension in setup.space.dimensions:
        key, position = dimension.key, None
        if dimension.exists(places) and (key in values or key in setup.stated):
            places[key] = values[key] if key in values else setup.stated[key]
            position = dimension.position(places[key], places)
            if position is None:
                return None
        positions[key] = dimension.spread(0.5) if position is None else position
    return positions if set(values) <= set(places) else None


def shares_of(space: Space, positions: Mapping[str, float | int]) -> np.ndarray:
    """Positions as shares [d] of their dimensions, in [0, 1], the ends included."""
    return np.array([_share(dimension, positions[dimension.key]) for dimension in space.dimensions])


def points_of(space: Space, positions: Mapping[str, float | int]) -> np.ndarray:
    """Positions as a point [p]: the share of an ordered dimension, one column for each name of another.

    Two different names of one dimension are one apart, as the two ends of an ordered dimension are.
    """
    columns: list[float] = []
    for dimension in space.dimensions:
        position = positions[dimension.key]
        if _is_ordered(dimension):
            columns.append(_share(dimension, position))
        else:
            columns.extend(np.sqrt(0.5) * (index == position) for index in range(len(dimension.values or ())))
    return np.array(columns)


def groups_of(space: Space) -> np.ndarray:
    """The dimension, by number, of every column of `points_of`: [p]."""
    widths = [1 if _is_ordered(dimension) else len(dimension.values or ()) for dimension in space.dimensions]
    return np.repeat(np.arange(len(widths)), widths)


def from_shares(space: Space, shares: np.ndarray) -> Values:
    """The recipe at these shares [d]."""
    by_key = dict(zip(space.keys, shares, strict=True))
    return space.choose(lambda dimension: dimension.spread(float(by_key[dimension.key])))[0]


def _is_ordered(dimension: Dimension) -> bool:
    return dimension.above is not None or dimension.values is None or dimension.is_ordered


def _share(dimension: Dimension, position: float | int) -> float:
    if dimension.above is not None:
        return float(position)
    if dimension.values is not None:
        return position / max(1, len(dimension.values) - 1)
    low, high, at = (np.log(x) if dimension.log else x for x in (dimension.low, dimension.high, position))
    return float((at - low) / (high - low)) if high > low else 0.0
