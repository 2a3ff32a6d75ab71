"""What is known of a search, what it may still propose and cost, and which recipes are audited again.

How much of the differences between the tried recipes each searched parameter accounts for is Optuna's fANOVA (Hutter,
Hoos, Leyton-Brown, ICML 2014): a random forest is fitted to what was tried, and the variance of its prediction over the
whole space is divided among the parameters. It describes the recipes that were tried. A search tries more recipes where
they are good, so the shares are no estimate of what a parameter causes, and they have no interval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pydantic import BaseModel

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.frontier import Direction, accuracy_leak_frontier
from smoothsweep.orchestrator.planning.plan import Plan, SearchForecast, devices_held
from smoothsweep.orchestrator.planning.state import read_failures
from smoothsweep.orchestrator.planning.trial import Proposal, ProposalLog, Trial, TrialMaker, recipe_of
from smoothsweep.orchestrator.search.agenda import hours_left, search_aims, search_setup, spent
from smoothsweep.orchestrator.search.setup import OPEN, Setup, crowding, metrics_of, place, read_outcome, worst_mean
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_note
from smoothsweep.sweeps.expand import axis_keys, axis_names
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.space import Positions, Values

if TYPE_CHECKING:
    from smoothsweep.orchestrator.result.data import Importance


ENDED = "search/ended.json"


class _EndNote(BaseModel, extra="forbid"):
    stopped_by: str | None


@dataclass(frozen=True, kw_only=True)
class ProposalRecord:
    """One recipe that was tried.

    Attributes:
        rung: None for the full attack.
        status: Done, failed or open.
        objectives: Column -> mean over seeds of the worst case over attacks, None where unknown.
        seeds: How many of the sweep's seeds it was tried under, None for all.
        device_hours: Device-hours of its finished stages that no earlier proposal has.
        kept: Whether the recipe went on from its rung; None without a rung.
        audited: Dropped by a rung, met the full attack to check on it.
    """

    number: int
    values: dict[str, Any]
    axes: dict[str, Any]
    rung: int | None
    trials: tuple[str, ...]
    status: str
    objectives: dict[str, float | None]
    device_hours: float
    kept: bool | None
    audited: bool
    origin: str = "random"
    feasible: bool | None = None
    of: int | None = None
    seeds: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReauditRecord:
    """What is kept of a second audit with fresh seeds.

    Attributes:
        axes: Axes of each selected recipe, the attacker's left out.
        complete: All of its trials are done.
    """

    seeds: tuple[int, ...]
    axes: tuple[dict[str, Any], ...]
    trials: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """What is kept of a search.

    Attributes:
        stopped_by: "recipes" (as many as asked for), "exhausted" (nothing new in the space), "budget: ...", None while
            unfinished.
        spent_device_hours: Over the life of the sweep, the re-audit included.
    """

    strategy: str
    objectives: dict[str, str]
    constraints: dict[str, dict[str, float]]
    budget: dict[str, float] | None
    spent_device_hours: float
    stopped_by: str | None
    proposals: tuple[ProposalRecord, ...]
    reaudit: ReauditRecord | None


def read_search(loaded: LoadedSweep, store: Store) -> SearchRecord | None:
    """The search of the sweep as the store knows it; None for a sweep without one."""
    search = loaded.sweep.search
    if search is None:
        return None
    budget, proposed = loaded.sweep.budget, ProposalLog(loaded, store)
    return SearchRecord(
        strategy=search.strategy,
        objectives=dict(search.objectives),
        constraints={key: constraint.model_dump(exclude_none=True) for key, constraint in search.constraints.items()},
        budget=budget.model_dump(exclude_none=True) if budget else None,
        spent_device_hours=spent(store, loaded.sweep.name)[0] / 3600,
        stopped_by=read_end(proposed),
        proposals=tuple(_records(proposed)),
        reaudit=read_reaudit_record(proposed),
    )


def read_reaudit_record(proposed: ProposalLog) -> ReauditRecord | None:
    """The re-audit of a search or of a grid, once its recipes were selected; None before, and where none is asked."""
    recipes = proposed.reaudit()
    if recipes is None:
        return None
    trials = proposed.reaudit_trials()
    axes = axis_names(axis_keys(proposed.loaded))
    return ReauditRecord(
        seeds=proposed.loaded.reaudit.seeds,
        axes=tuple(
            {axes[key]: next(t.cell.axes[axes[key]] for t in trials if _is(t, recipe)) for key in axes if key in recipe}
            for recipe in recipes
        ),
        trials=tuple(trial.id for trial in trials),
        complete=all(proposed.store.has(stage) for trial in trials for stage in trial.stages),
    )


def write_end(proposed: ProposalLog, stopped_by: str | None) -> None:
    """Note why the search has ended, or that it has not."""
    proposed.store.write_note(proposed.name, ENDED, json.dumps({"stopped_by": stopped_by}).encode())


def read_end(proposed: ProposalLog) -> str | None:
    """Why the last run of the search ended; None while it is unfinished."""
    unread = "the search counts as unfinished until it is run again"
    note = read_note(proposed.store, proposed.name, ENDED, _EndNote, unread)
    return note.stopped_by if note is not None and proposed.proposals() else None


def _records(proposed: ProposalLog) -> list[ProposalRecord]:
    store, make, proposals = proposed.store, proposed.make, proposed.proposals()
    aims, failures = search_aims(proposed.loaded), read_failures(store, proposed.name)
    by_number = {proposal.number: proposal for proposal in proposals}
    again = {proposal.of for proposal in proposals if proposal.origin == "survivor"}
    left = {by_number[p.of].rung for p in proposals if p.of in by_number}  # rungs that some recipe has left
    counted: set[str] = set()
    records = []
    for proposal in proposals:
        trials, rung = make(proposal), proposal.rung
        outcome = read_outcome(trials, store, aims, failures)
        settled = outcome.status != OPEN and set(outcome.violations) == set(aims.constraints)
        axes = {name: trials[0].cell.axes[name] for key, name in make.make.names.items() if key.startswith("recipe.")}
        records.append(
            ProposalRecord(
                number=proposal.number,
                values=proposal.values,
                axes=axes,
                rung=rung,
                trials=tuple(trial.id for trial in trials),
                status=outcome.status,
                objectives=dict(outcome.objectives),
                device_hours=_device_hours(trials, store, counted),
                kept=None if rung is None else True if proposal.number in again else False if rung in left else None,
                audited=proposal.origin == "audit",
                origin=proposal.origin,
                feasible=outcome.feasible if settled else None,
                of=proposal.of,
                seeds=proposal.seeds,
            )
        )
    return records


def _device_hours(trials: Sequence[Trial], store: Store, counted: set[str]) -> float:
    """Device-hours of the trials' finished stages that are not counted yet."""
    stages: dict[str, Stage] = {s.fingerprint: s for t in trials for s in t.stages if s.fingerprint not in counted}
    seconds = 0.0
    for fingerprint, stage in stages.items():
        if store.has(stage):
            counted.add(fingerprint)
            seconds += store.manifest(stage)["seconds"]
    return seconds / 3600


def _is(trial: Trial, recipe: Mapping[str, Any]) -> bool:
    return all(trial.cell.values.get(key) == value for key, value in recipe.items())


LEAST = 8
"""The fewest recipes that a forest is fitted to."""
SEED = 0


def importances(loaded: LoadedSweep, record: SearchRecord) -> tuple[Importance, ...]:
    """One importance per objective, from recipes with the full attack under all seeds; none below `LEAST` recipes.

    A parameter that a recipe does not have counts as the middle of its range, as it does when recipes are proposed.
    """
    setup = search_setup(TrialMaker(loaded))
    known: list[tuple[Positions, ProposalRecord]] = []
    for proposal in record.proposals:
        full = proposal.rung is None and proposal.seeds is None and proposal.status == "done"
        positions = place(setup, proposal.values) if full else None
        if positions is not None:
            known.append((positions, proposal))
    by_objective = (_importance(loaded, known, objective) for objective in record.objectives)
    return tuple(importance for importance in by_objective if importance is not None)


def _importance(
    loaded: LoadedSweep, known: Sequence[tuple[Positions, ProposalRecord]], objective: str
) -> Importance | None:
    values = [(at, float(value)) for at, recipe in known if (value := recipe.objectives.get(objective)) is not None]
    if len(values) < LEAST or len({value for _, value in values}) < 2:
        return None
    import optuna  # seconds, which a report of a grid does without
    from optuna.trial import create_trial

    from smoothsweep.orchestrator.result.data import Importance
    from smoothsweep.orchestrator.search.optuna_choice import distribution

    dimensions = loaded.search.dimensions.dimensions
    space = {dimension.key: distribution(dimension) for dimension in dimensions}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=SEED))
    study.add_trials([create_trial(params=at, distributions=space, value=value) for at, value in values])
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    ranked = sorted(((key, float(share)) for key, share in shares.items()), key=lambda pair: -pair[1])
    return Importance(objective=objective, recipes=len(values), shares=tuple(ranked))


def frontier_recipes(loaded: LoadedSweep, trials: Sequence[Trial], store: Store) -> list[dict[str, Any]]:
    """Recipes on the frontier of test accuracy and leak, by falling accuracy, at most as many as the sweep asks for.

    Of a search, by its first objective that is a leak; of a grid, by the leak that its report decides by; both among
    the recipes accurate enough. Recipes with trials that are not finished do not take part. Where the frontier
    holds too many, its ends stay and the loneliest of the others (crowding distance).
    """
    recipes: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.phase == "sweep":
            recipes.setdefault(canonical_json(recipe_of(trial.cell.values)), []).append(trial)
    rows = {
        key: [(trial.seed, metrics_of(trial, store)) for trial in members]
        for key, members in recipes.items()
        if all(store.has(stage) for trial in members for stage in trial.stages)
    }
    aim = leak_of(loaded, [metrics for row in rows.values() for _, metrics in row])
    if aim is None:
        return []
    column, way = aim
    places = {}
    for key, row in rows.items():
        accuracy, leak = worst_mean(row, "test_acc", "max"), worst_mean(row, column, way)
        if accuracy is not None and leak is not None:
            places[key] = (accuracy, leak if way == "min" else -leak)
    if not places:
        return []
    keys, points = list(places), np.array(list(places.values()))
    frontier = accuracy_leak_frontier(points[:, 0], points[:, 1], min_accuracy=loaded.sweep.accuracy_needed)
    chosen = _at_most(points, list(frontier.members), loaded.reaudit.recipes)
    return [recipe_of(recipes[keys[index]][0].cell.values) for index in chosen]


def leak_of(loaded: LoadedSweep, rows: Sequence[dict[str, Any]]) -> tuple[str, Direction] | None:
    """The leak that decides, and the direction a defender wants; None if none was measured."""
    search = loaded.sweep.search
    if search:
        return next(iter(search.leaks.items()), None)
    specs = [metric_of(key) for key in CLASS_METRICS] + [s for s in METRICS if s.group == "leak" and s.better]
    for spec in specs:
        if any(metrics.get(spec.key) is not None for metrics in rows):
            return spec.key, "min" if spec.better == "low" else "max"
    return None


def _at_most(points: np.ndarray, members: list[int], count: int) -> list[int]:
    """The `count` members that crowding distance keeps, in their order; on a tie those that leak less."""
    if len(members) <= count:
        return members
    lonely = crowding(points[members])
    best = sorted(range(len(members)), key=lambda place: (-lonely[place], points[members[place], 1]))[:count]
    return [members[place] for place in sorted(best)]


SAMPLES = 4  # recipes drawn to tell what one costs
FAR = 10**9  # numbers of these draws: no proposal's
AGAIN = "again"  # beside the rungs: the audit under fresh seeds


def forecast_of(proposed: ProposalLog) -> SearchForecast | None:
    """What the search of the sweep may still propose, or its looks; None for a sweep without, or that is through."""
    sweep, store = proposed.loaded.sweep, proposed.store
    if sweep.looks is not None:
        return _forecast_of_looks(proposed)
    if sweep.search is None:
        return None
    proposals, make = proposed.proposals(), proposed.make
    setup = search_setup(make)
    counts = _counts(setup, proposals)
    recipes = _samples(setup)
    # How many are to be audited again, of which none has been chosen yet.
    again = sweep.reaudit.recipes if sweep.reaudit and proposed.reaudit() is None else 0
    if not recipes or not (again or any(count for _, count in counts)):
        return None
    whole = [[s for t in make(Proposal(number=0, values=r, rung=counts[0][0])) for s in t.stages] for r in recipes]
    shared = set.intersection(*({s.fingerprint for s in with_ancestors(stages)} for stages in whole))
    seen: list[set[str]] = [set(shared) for _ in recipes]
    steps = []
    for rung, count in [*counts, (AGAIN, again)]:
        samples = []
        for known, values in zip(seen, recipes, strict=True):
            trials = _trials(make, values, rung)
            stages = [s for s in with_ancestors([s for t in trials for s in t.stages]) if s.fingerprint not in known]
            known |= {stage.fingerprint for stage in stages}
            samples.append(tuple(stages))
        steps.append((count, tuple(samples)))
    common = [s for s in with_ancestors(whole[0]) if s.fingerprint in shared and not store.has(s)]
    return SearchForecast(
        recipes=counts[0][1] + (bool(setup.rungs and setup.baseline) and not proposals),
        again=again,
        settings=sweep,
        steps=tuple(steps),
        shared=() if proposals else tuple(common),
        budget_hours=hours_left(store, sweep.name, sweep.budget),
    )


def _forecast_of_looks(proposed: ProposalLog) -> SearchForecast | None:
    """All that looks may still train: every recipe that the last one left open, if it leaves them all open."""
    sweep, make, proposals = proposed.loaded.sweep, proposed.make, proposed.proposals()
    looks_begun = max((proposal.look for proposal in proposals if proposal.look is not None), default=0)
    last = [proposal.values for proposal in proposals if proposal.look == looks_begun]
    later = range(looks_begun + 1, len(make.looks.looks))
    if not later or read_end(proposed) is not None:
        return None
    # Until all recipes of a look are proposed, none of its answers is known.
    recipes = last if looks_begun else [recipe for recipe, _ in make.recipes]
    trials = [t for recipe in recipes for look in later for t in make(Proposal(number=0, values=recipe, look=look))]
    first = [t for recipe in recipes for t in make(Proposal(number=0, values=recipe, look=0))]
    known = {stage.fingerprint for stage in with_ancestors([s for t in first for s in t.stages])}
    stages = with_ancestors([stage for trial in trials for stage in trial.stages])
    added = tuple(stage for stage in stages if stage.fingerprint not in known and not proposed.store.has(stage))
    return SearchForecast(
        recipes=0,
        settings=sweep,
        steps=((1, (added,)),),
        budget_hours=hours_left(proposed.store, sweep.name, sweep.budget),
        looks=tuple(make.looks.looks[look] for look in later),
        trials=len(trials),
    )


def refuse_small_budget(loaded: LoadedSweep, plan: Plan, store: Store) -> None:
    """Raise InputError for a budget that is smaller than the cheapest trial to run, where the store knows its cost.

    plan: of the trials known, with what a search may still propose. A sweep that has spent something already is only
    told that its budget is spent.
    """
    budget = loaded.sweep.budget
    if budget is None or budget.device_hours is None or spent(store, loaded.sweep.name)[0] > 0:
        return
    missing = {stage.fingerprint for stage in plan.missing}
    trials = [[s for s in with_ancestors(t.stages) if s.fingerprint in missing] for t in plan.trials[:50]]
    works = [(stages, 1) for stages in trials if stages] or _recipes_of(loaded, plan.forecast, store)
    held = devices_held(loaded.sweep, plan.history)
    totals = [(plan.history.total(stages, held), trials) for stages, trials in works]
    if not totals or any(total.unknown for total, _ in totals):
        return
    cheapest = min(total.least / trials for total, trials in totals)
    if cheapest > 3600 * budget.device_hours:
        raise InputError(
            f"{loaded.source}: budget.device_hours: expected at least what one trial costs, about "
            f"{cheapest / 3600:.3g}, got {budget.device_hours:g}"
        )


def _recipes_of(loaded: LoadedSweep, forecast: SearchForecast | None, store: Store) -> list[tuple[list[Stage], int]]:
    """Stages of recipes that may be proposed, and how many trials they are together."""
    if forecast is None or not forecast.steps:
        return []
    trials = len(loaded.sweep.every_seed) * len(loaded.sweep.combinations)
    samples = [[stage for stage in stages if not store.has(stage)] for stages in forecast.steps[0][1]]
    return [(stages, trials) for stages in samples if stages]


def _trials(make: TrialMaker, values: Values, rung: int | str | None) -> list[Trial]:
    if rung == AGAIN:
        return make.trials_under(values, make.loaded.reaudit.seeds, "reaudit") if make.loaded.sweep.reaudit else []
    return make(Proposal(number=0, values=values, rung=cast("int | None", rung)))


def _samples(setup: Setup) -> list[Values]:
    samples: list[Values] = []
    for number in range(SAMPLES):
        for attempt in range(20):
            values = setup.random(FAR + number, attempt)
            try:
                setup.identity(values)
            except InputError:
                continue
            samples.append(values)
            break
    return samples


def _counts(setup: Setup, proposals: list[Proposal]) -> list[tuple[int | None, int]]:
    """(rung, how many more recipes meet it at most), from the first rung to the full attack (None)."""
    tried = sum(proposal.of is None for proposal in proposals)
    if not setup.rungs:
        total = setup.recipes if setup.recipes is not None else (setup.space.count or 0) + bool(setup.baseline)
        return [(None, max(0, total - tried))]
    remaining = (setup.recipes or 0) - bool(setup.baseline)
    counts: list[tuple[int | None, int]] = []
    for number, rung in enumerate(setup.rungs):
        there = sum(proposal.rung == number for proposal in proposals)
        counts.append((number, max(0, remaining - there)))
        remaining = math.ceil(rung.keep * remaining - 1e-9)
    there = sum(proposal.rung is None and proposal.of is not None for proposal in proposals)
    first = bool(setup.baseline) and not proposals  # which meets the full attack at once
    return [*counts, (None, max(0, remaining + setup.audit - there) + first)]
