"""What every strategy of a search knows: outcomes of recipes, the space and places in it, how recipes are drawn.

A strategy is a plain function of the proposals so far and of outcomes; it keeps nothing between calls. So the same
search proposes the same recipes whatever was killed, resumed, or finished in another order.

An objective of a recipe is the mean over its seeds of the worst case over its attacks: the attacker picks the attack.
So of a column that is to be small the largest value counts under each seed, and the other way round.

The strategies without a model are here too: the whole space point by point, chance, and successive halving (Jamieson
and Talwalkar, 2016): many recipes meet a cheap attack, the best of them a dearer one. The target is trained once for
all rungs, so a rung costs its attack alone. Beside the survivors some of those dropped meet the full attack too, chosen
by chance: only they can show whether the cheap attack ranks as the full one does. Recipes are ordered as by NSGA-II
(Deb et al., 2002, section III): constraints first, then non-dominated rank, then crowding distance.

Optuna's choice is that of a study built anew from what is known, and asked once: it remembers nothing, so a search that
was killed goes on as if it had not been. Sampler gp is Optuna's Gaussian process: the next recipe is where the
hypervolume is expected to grow most, given what still runs and how likely the constraints are met. It takes a second
per ask, which tpe does not (docs/benchmarks.md compares). A dimension that a recipe does not have stands in the middle,
so that all recipes are points of one space. Optuna takes seconds to load, which a plan does without.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.frontier import pareto_mask
from smoothsweep.orchestrator.planning.trial import Proposal, Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import STRATEGIES, Constraint, Direction, Rung
from smoothsweep.sweeps.space import Dimension, Positions, Space, Values

if TYPE_CHECKING:
    import optuna

    from smoothsweep.orchestrator.result.data import Status

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

    status: Status
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


def read_outcome(trials: Sequence[Trial], store: Store, aims: Aims, failed: Mapping[str, str]) -> Outcome:
    """Outcome of a proposal with these trials: failed where all have ended and some without a result.

    failed: ids of trials that have failed.
    """
    complete = {trial.id: all(store.has(stage) for stage in trial.stages) for trial in trials}
    if not all(complete.values()):
        ended = all(complete[trial.id] or trial.id in failed for trial in trials)
        return Outcome(status=FAILED if ended else OPEN, objectives=dict.fromkeys(aims.objectives))
    rows = [(trial.seed, metrics_of(trial, store)) for trial in trials if not trial.is_control]
    worst = {column: worst_by_seed(rows, column, way) for column, way in aims.ways().items()}
    by_seed = {seed: {column: worst[column].get(seed, math.nan) for column in worst} for seed, _ in rows}
    return aims.outcome({column: fmean(found.values()) for column, found in worst.items() if found}, by_seed)


def metrics_of(trial: Trial, store: Store) -> dict[str, Any]:
    """All metrics of a finished trial."""
    metrics: dict[str, Any] = {}
    for stage in trial.stages:
        metrics.update(store.metrics(stage))
    return metrics


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


Outcomes = Mapping[int, Outcome]  # by number of the proposal; those without one are open


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


def all_tried(setup: Setup, proposals: Sequence[Proposal]) -> bool:
    """Whether there are as many recipes as may be tried."""
    return setup.recipes is not None and setup.recipes <= sum(proposal.of is None for proposal in proposals)


def strategy(name: str) -> Strategy:
    """The strategy of that name; InputError naming the valid ones otherwise.

    It tries the sweep's baseline before everything else, so that there is something to compare with, and where it
    learns (`Setup.lag`) it waits until the proposals up to i - lag have come out before it makes the next one, i.
    """
    if name not in STRATEGIES:
        raise InputError(f"search.strategy: expected one of {', '.join(STRATEGIES)}, got {name!r}")
    propose = STRATEGIES[name].propose

    def with_baseline(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
        if setup.baseline and not proposals:
            return Proposal(number=0, values=dict(setup.baseline), origin="baseline")
        if all_tried(setup, proposals) and not (setup.rungs or any(proposal.seeds for proposal in proposals)):
            return None
        first = 0 if setup.lag is None else len(proposals) - setup.lag + 1
        settled = all(number in outcomes for number in range(first))
        return propose(setup, proposals, outcomes) if settled else Wait()

    return with_baseline


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


def shares_of(space: Space, positions: Positions) -> np.ndarray:
    """Positions as shares [d] of their dimensions, in [0, 1], the ends included."""
    return np.array([_share(dimension, positions[dimension.key]) for dimension in space.dimensions])


def points_of(space: Space, positions: Positions) -> np.ndarray:
    """Positions as a point [p]: the share of an ordered dimension, one column for each name of another.

    Two different names of one dimension are one apart, as the two ends of an ordered dimension are.
    """
    columns = [
        [_share(dimension, positions[dimension.key])]
        if (names := _names(dimension)) is None
        else np.sqrt(0.5) * (np.arange(names) == positions[dimension.key])
        for dimension in space.dimensions
    ]
    return np.concatenate(columns)


def groups_of(space: Space) -> np.ndarray:
    """The dimension, by number, of every column of `points_of`: [p]."""
    return np.repeat(np.arange(len(space.keys)), [_names(dimension) or 1 for dimension in space.dimensions])


def from_shares(space: Space, shares: np.ndarray) -> Values:
    """The recipe at these shares [d]."""
    by_key = dict(zip(space.keys, shares, strict=True))
    return space.choose(lambda dimension: dimension.spread(float(by_key[dimension.key])))


def _names(dimension: Dimension) -> int | None:
    """How many names a dimension without an order has; None of an ordered one."""
    is_ordered = dimension.above is not None or dimension.values is None or dimension.is_ordered
    return None if is_ordered else len(dimension.values or ())


def _share(dimension: Dimension, position: float | int) -> float:
    if dimension.above is not None:
        return float(position)
    if dimension.values is not None:
        return position / max(1, len(dimension.values) - 1)
    low, high, at = (np.log(x) if dimension.log else x for x in (dimension.low, dimension.high, position))
    return float((at - low) / (high - low)) if high > low else 0.0


def propose_grid(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """The first recipe of the space, in its order, that is valid and not known."""
    known = setup.known(proposals)
    for values in setup.space.enumerate():
        try:
            if setup.identity(values) not in known:
                return Proposal(number=len(proposals), values=values, origin="grid")
        except InputError:
            continue  # ends and choices were seen to be of use; what is left out are combinations
    return None


def propose_random(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """A random recipe."""
    number = len(proposals)
    values = setup.fresh(proposals, lambda attempt: setup.random(number, attempt))
    return None if values is None else Proposal(number=number, values=values, origin="random")


def propose_halving(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """The next recipe for the lowest rung that is not complete; Wait where the rung before is not through."""
    number = len(proposals)
    baseline = [p for p in proposals if p.origin == "baseline"]
    entered = [p for p in proposals if p.rung == 0]
    if len(entered) < (setup.recipes or 0) - len(baseline) and len(entered) + len(baseline) == number:
        values = setup.fresh(proposals, lambda attempt: setup.random(number, attempt))
        if values is not None:
            return Proposal(number=number, values=values, rung=0, origin="random")
    dropped: list[Proposal] = []
    for rung in range(len(setup.rungs)):
        if not all(p.number in outcomes for p in entered):
            return Wait()
        through = survivors(setup, entered, outcomes, rung)
        dropped += [p for p in entered if p not in through]
        after = rung + 1 if rung + 1 < len(setup.rungs) else None
        there = [p for p in proposals if p.rung == after and p.origin == "survivor"]
        if len(there) < len(through) and (missing := _not_yet(through, there)):
            return _again(missing[0], number, after, "survivor")
        entered = there
    audited = [p for p in proposals if p.origin == "audit"]
    chosen = audits(setup, dropped)
    if len(audited) < len(chosen) and (missing := _not_yet(chosen, audited)):
        return _again(missing[0], number, None, "audit")
    return None


def survivors(setup: Setup, entered: Sequence[Proposal], outcomes: Outcomes, rung: int) -> list[Proposal]:
    """Who of those that entered a rung go on: the share `keep` (rounded up), best first.

    They are of those that are done and meet the constraints; ties go to the smaller number. If none meets the
    constraints, the one that misses them by least goes on alone, so that a search never ends with nothing.
    """
    count = max(1, math.ceil(setup.rungs[rung].keep * len(entered) - 1e-9))
    done = [one for one in sorted(entered, key=lambda one: one.number) if outcomes[one.number].status == DONE]
    allowed = [one for one in done if outcomes[one.number].feasible]
    if not allowed:
        misses = [sum(max(0.0, miss) for miss in outcomes[one.number].violations.values()) for one in done]
        return [done[int(np.argmin(misses))]] if done else []
    ways = setup.aims.objectives
    points = np.array([[outcomes[one.number].objectives[column] for column in ways] for one in allowed], dtype=float)
    return [allowed[index] for index in ordered(points, list(ways.values()))[:count]]


def audits(setup: Setup, dropped: Sequence[Proposal]) -> list[Proposal]:
    """Some of those that were dropped, at any rung, by chance."""
    candidates = sorted(dropped, key=lambda p: p.number)
    count = min(setup.audit, len(candidates))
    chosen = np.random.default_rng([setup.seed, 1]).permutation(len(candidates))[:count]
    return [candidates[index] for index in sorted(chosen)]


def _not_yet(wanted: Sequence[Proposal], there: Sequence[Proposal]) -> list[Proposal]:
    """Wanted proposals whose recipe is not there yet."""
    return [p for p in wanted if all(p.values != other.values for other in there)]


def _again(proposal: Proposal, number: int, rung: int | None, origin: str) -> Proposal:
    return Proposal(number=number, values=proposal.values, rung=rung, origin=origin, of=proposal.number)


def ordered(points: np.ndarray, directions: Sequence[Direction]) -> list[int]:
    """Indices of the points [n, d], best first: by rank, then by falling crowding distance, then by index.

    Of rank 0 are those that nothing dominates, then come those that only the first dominate, and so on.
    """
    remaining, order = np.arange(len(points)), list[int]()
    while len(remaining):
        mask = pareto_mask(points[remaining], directions)
        front, remaining = remaining[mask], remaining[~mask]
        order += front[np.argsort(-crowding(points[front]), kind="stable")].tolist()
    return order


def crowding(points: np.ndarray) -> np.ndarray:
    """Distance [n] between the neighbours of each of the points [n, d] in every objective, relative to its range.

    Infinite for the first and last in an objective; 0 where all are equal.
    """
    count = len(points)
    distance = np.zeros(count)
    for column in points.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        if span == 0:
            continue
        distance[order[0]] = distance[order[-1]] = np.inf
        if count > 2:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


STARTUP = {"gp": 4, "tpe": 10}  # recipes at least, and one more than dimensions, spread evenly before it is asked
PATIENCE = 4  # attempts at one proposal before chance takes over from a sampler that repeats itself


def propose_optuna(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """Optuna's choice, from the outcomes of the proposals up to i - lag."""
    number, origin = len(proposals), "optuna"
    refused: list[Values] = []  # chosen before, and known or invalid

    def draw(attempt: int) -> Values:
        nonlocal origin
        values, origin = _choice(setup, proposals, outcomes, refused)
        refused.append(values)
        return values

    values = setup.fresh(proposals, draw)
    return None if values is None else Proposal(number=number, values=values, origin=origin)


def _choice(
    setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes, refused: Sequence[Values]
) -> tuple[Values, str]:
    """Values of the next recipe, and where they come from (`Proposal.origin`)."""
    number, attempt = len(proposals), len(refused)
    if attempt >= PATIENCE:
        return setup.random(number, attempt), "random"
    visible = max(0, number - (setup.lag or 1) + 1)
    finished = [p for p in proposals[:visible] if p.number in outcomes and outcomes[p.number].status == DONE]
    startup = max(STARTUP[setup.sampler], len(setup.space.keys) + 1)
    if number < startup or len(finished) < 2:
        points = _sobol(len(setup.space.keys), setup.seed, attempt, math.ceil(math.log2(startup)))
        return from_shares(setup.space, points[number % len(points)]), "startup"
    from optuna.trial import TrialState, create_trial

    study = _study(setup, number, attempt)
    distributions = {dimension.key: distribution(dimension) for dimension in setup.space.dimensions}

    def add(recipe: Values, state: TrialState, **measured: Any) -> None:
        if (positions := place(setup, recipe)) is not None:  # else a recipe outside of the space
            study.add_trial(create_trial(state=state, params=positions, distributions=distributions, **measured))

    for proposal in proposals:
        outcome = outcomes.get(proposal.number)
        if proposal.number >= visible:
            add(proposal.values, TrialState.RUNNING)
        elif outcome is None or outcome.status != DONE:
            add(proposal.values, TrialState.FAIL)
        else:
            values = [present(value, "objective") for value in outcome.objectives.values()]
            constraints = {column: outcome.violations[column] for column in setup.aims.constraints}
            add(proposal.values, TrialState.COMPLETE, values=values, constraints=constraints)
    for recipe in refused:
        add(recipe, TrialState.RUNNING)
    asked = study.ask(distributions).params
    return setup.space.choose(lambda dimension: asked[dimension.key]), "optuna"


def distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    """The distribution of the positions on a dimension."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if dimension.above is not None:
        return FloatDistribution(0.0, 1.0)
    if dimension.values is None:
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if dimension.is_ordered:
        return IntDistribution(0, len(dimension.values) - 1)
    return CategoricalDistribution(range(len(dimension.values)))


def _study(setup: Setup, number: int, attempt: int) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seed = int(np.random.SeedSequence([setup.seed, number, attempt]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if setup.sampler == "gp":
            sampler = optuna.samplers.GPSampler(n_startup_trials=2, seed=seed)
        else:
            sampler = optuna.samplers.TPESampler(n_startup_trials=2, multivariate=True, constant_liar=True, seed=seed)
    ways = setup.aims.objectives.values()
    return optuna.create_study(directions=["maximize" if way == "max" else "minimize" for way in ways], sampler=sampler)


@lru_cache(maxsize=64)
def _sobol(dimensions: int, seed: int, attempt: int, doublings: int) -> np.ndarray:
    """Points of a scrambled Sobol sequence over the space; another sequence for every attempt."""
    from scipy.stats import qmc

    generator = np.random.default_rng([seed, attempt])
    return qmc.Sobol(dimensions, scramble=True, rng=generator).random(2**doublings)
