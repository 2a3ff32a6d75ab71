"""What a sweep may still cost beyond what is known of it: recipes not proposed yet, and those audited again."""

from __future__ import annotations

import math
from typing import cast

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.plan import Plan, SearchForecast, devices_held
from smoothsweep.orchestrator.planning.proposals import Proposal, ProposalLog, TrialMaker
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.search.agenda import search_setup
from smoothsweep.orchestrator.search.budget import hours_left, spent
from smoothsweep.orchestrator.search.record import read_end
from smoothsweep.orchestrator.search.setup import Setup
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.space import Values

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
