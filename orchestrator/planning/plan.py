"""What would run: trials, stages, what is already there, what it is likely to cost. Starts nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from core.errors import InputError
from orchestrator.planning.history import History, read_history
from orchestrator.planning.reference import MACHINE, borrowed
from orchestrator.planning.trial import Trial
from orchestrator.stages.stage import Stage, with_ancestors
from orchestrator.store.base import Store
from sweeps.loaded import Sweep
from tasks.registry import task

Total = tuple[float, float, float, int]  # device-seconds: mean, least, most; and how many stages are of unknown cost
SEEDS = ("seed", "seeds")  # keys of a stage's configuration, which decide nothing but where its task says so
NOTHING: Total = (0.0, 0.0, 0.0, 0)


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What a search may still propose and audit again, told from a few recipes drawn out of its space.

    recipes: at most so many more. again: how many of all are to be audited again. settings: of one of them. steps: (how
    many recipes, sample recipes as the stages that each of them adds) for every attack that they meet. shared: stages
    that all of them need. budget_hours: device-hours that are left of the sweep's budget, None without one.
    """

    recipes: int
    again: int = 0
    settings: Sweep
    steps: tuple[tuple[int, tuple[tuple[Stage, ...], ...]], ...] = ()
    shared: tuple[Stage, ...] = ()
    budget_hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Trials of a sweep, their distinct stages (inputs first), and which of those have artifacts.

    ahead: what a search may still propose; None where there is nothing more to come.
    """

    trials: list[Trial]
    stages: list[Stage]
    cached: frozenset[str]  # fingerprints
    ahead: Ahead | None = None

    @cached_property
    def missing(self) -> list[Stage]:
        """Stages that must run, inputs first: no artifact, and some trial still needs them.

        A finished stage does not need its inputs any more, so those are not made again if they were deleted.
        """
        needed: set[str] = set()
        waiting = [s for trial in self.trials for s in trial.stages]
        while waiting:
            stage = waiting.pop()
            if stage.fingerprint not in self.cached and stage.fingerprint not in needed:
                needed.add(stage.fingerprint)
                waiting.extend(stage.inputs.values())
        return [stage for stage in self.stages if stage.fingerprint in needed]

    def is_complete(self, trial: Trial) -> bool:
        return all(stage.fingerprint in self.cached for stage in trial.stages)


def make_plan(trials: list[Trial], store: Store, ahead: Ahead | None = None) -> Plan:
    """Look every stage up in the store; a damaged artifact does not count, and is told of."""
    for trial in _cell_by_cell(trials):
        trial.stages  # noqa: B018 - made now: what the seeds of a cell share is then made once
    stages = with_ancestors([stage for trial in trials for stage in trial.stages])
    present = {name: store.finished(name) for name in {stage.name for stage in stages}}
    cached = frozenset(s.fingerprint for s in stages if s.fingerprint in present[s.name] and store.has(s))
    return Plan(trials=trials, stages=stages, cached=cached, ahead=ahead)


def _cell_by_cell(trials: list[Trial]) -> list[Trial]:
    """The same trials, those of a cell one after the other."""
    cells: dict[int, list[Trial]] = defaultdict(list)
    for trial in trials:
        cells[id(trial.cell)].append(trial)
    return [trial for of_cell in cells.values() for trial in of_cell]


def refuse_impossible(plan: Plan) -> None:
    """Raise InputError for work that a stage would refuse, before any other stage has run."""
    seen: set[tuple[object, ...]] = set()
    for stage in plan.missing:
        if task(stage.name).check is None or (told := _told(stage)) in seen:
            continue
        seen.add(told)
        inputs = {name: {**source.config, **source.hints} for name, source in stage.inputs.items()}
        try:
            task(stage.name).refuse({**stage.config, **stage.hints}, inputs)
        except InputError as error:
            raise InputError(f"{stage.name}: {error}") from None


def _told(stage: Stage) -> tuple[object, ...]:
    """What a stage and its inputs are told, their seeds left out: of a thousand seeds of a cell one is looked at, or
    each where it decides (`Task.seed_decides`).

    Values are compared as objects, which the trials of a cell share: the same objects are the same configuration.
    """
    found: list[object] = []
    for role, one in ((None, stage), *stage.inputs.items()):
        found += (role, one.name)
        left_out = () if task(one.name).seed_decides else SEEDS
        for told in (one.config, one.hints):
            found += [part for key, value in told.items() if key not in left_out for part in (key, id(value))]
    return tuple(found)


def plan_summary(plan: Plan, store: Store, price: float | None = None) -> dict[str, Any]:
    """The plan as JSON values: counts, device-hours to run and device-hours reused, each with a range.

    Device-hours are null where a kind of stage was never measured in this store; `known_device_hours` then is the part
    that can be told, and `about` what it would be by the rates of another machine, null where those do not know it
    either. price: dollars per device-hour; without one there are no dollars.
    """
    missing = {stage.fingerprint for stage in plan.missing}
    to_run, reused = defaultdict(list), defaultdict(list)
    for stage in plan.stages:
        if stage.fingerprint in missing:
            to_run[stage.name].append(stage)
        elif stage.fingerprint in plan.cached:
            reused[stage.name].append(stage)
    kinds = {stage.name for stage in _stages_ahead(plan.ahead)}
    history = read_history(store, {*to_run, *reused, *kinds}, known=plan.stages)
    known = plan.trials[0].settings if plan.trials else plan.ahead and plan.ahead.settings
    held = devices_held(known, history) if known else lambda _: 1.0
    further, capped = _cost_ahead(plan.ahead, history, held)
    costs = {name: history.total(stages, held) for name, stages in to_run.items()}
    lent = {name: borrowed(stages, history, held) for name, stages in to_run.items()}
    lent_whole = (sum(seconds for seconds, _ in lent.values()), sum(n for _, n in lent.values()) + further[3])
    savings = {name: history.total(stages, held) for name, stages in reused.items()}
    counts: dict[str, int] = defaultdict(int)
    for stage in plan.stages:
        counts[stage.name] += 1
    return {
        "trials": len(plan.trials),
        "trials_complete": sum(plan.is_complete(trial) for trial in plan.trials),
        "stages": len(plan.stages),
        "stages_cached": len(plan.cached),
        "stages_to_run": len(missing),
        **_cost(_with_ahead(_sum(costs), further, capped), price),
        "about": _about(_sum(costs), lent_whole),
        "price_per_device_hour": price,
        "measured_on": sorted(set().union(*(history.devices.get(name, ()) for name in costs))),
        "reused": {"stages": len(plan.cached), **_cost(_sum(savings), price)},
        "search": None
        if plan.ahead is None
        else {
            "at_most_more_recipes": plan.ahead.recipes,
            "at_most_audited_again": plan.ahead.again,
            "budget_device_hours_left": plan.ahead.budget_hours,
            **_cost(further, price),
        },
        "by_stage": {
            name: {
                "total": counts[name],
                "cached": len(reused[name]),
                "to_run": len(to_run[name]),
                **_cost(costs.get(name, NOTHING), price),
                "about": _about(costs.get(name, NOTHING), lent.get(name, (0.0, 0))),
                "reused": _cost(savings.get(name, NOTHING), price),
            }
            for name in counts
        },
    }


def _stages_ahead(ahead: Ahead | None) -> list[Stage]:
    if ahead is None:
        return []
    return [*ahead.shared, *(s for _, samples in ahead.steps for sample in samples for s in sample)]


def _cost_ahead(ahead: Ahead | None, history: History, held: Callable[[Stage], float]) -> tuple[Total, float | None]:
    """Device-seconds of all that a search may still propose, and at most how many its budget leaves.

    The least and the most are those of the cheapest and the dearest sample recipe, as often as there are recipes.
    """
    if ahead is None:
        return NOTHING, None
    total = history.total(ahead.shared, held)
    for count, samples in ahead.steps:
        costs = [history.total(sample, held) for sample in samples]
        if not costs:
            continue
        mean = sum(cost[0] for cost in costs) / len(costs)
        least, most = min(cost[1] for cost in costs), max(cost[2] for cost in costs)
        unknown = max(cost[3] for cost in costs)
        total = _sum({"a": total, "b": (count * mean, count * least, count * most, count * unknown)})
    return total, None if ahead.budget_hours is None else 3600 * ahead.budget_hours


def _with_ahead(known: Total, further: Total, capped: float | None) -> Total:
    """Both together, but never more than the budget."""
    mean, least, most, unknown = _sum({"known": known, "ahead": further})
    if capped is None:
        return mean, least, most, unknown
    return min(mean, capped), min(least, capped), min(most, capped), unknown


def devices_held(settings: Sweep, history: History) -> Callable[[Stage], float]:
    """How many devices a stage of this sweep occupies while it runs.

    A device is a GPU where such stages were measured on GPUs, and two tasks that share one hold half of it each.
    Elsewhere it is what runs one task. Every worker of a distributed training holds a device.
    """
    resources = settings.resources

    def held(stage: Stage) -> float:
        if (workers := stage.config.get("workers", 1)) > 1:
            return float(workers)
        if not task(stage.name).on_device or "cuda" not in history.devices.get(stage.name, ()):
            return 1.0
        return (resources.gpus_per_training if task(stage.name).trains else resources.gpus_per_task) or 1.0

    return held


def _sum(totals: dict[str, Total]) -> Total:
    mean, least, most, unknown = map(sum, zip(NOTHING, *totals.values(), strict=True))
    return mean, least, most, unknown


def _about(total: Total, lent: tuple[float, int]) -> dict[str, Any] | None:
    """What is known and what another machine's rates say of the rest; None where nothing is missing or they do not."""
    mean, _, _, unknown = total
    seconds, without = lent
    if not unknown or without:
        return None
    return {"hours": (mean + seconds) / 3600, "stages": unknown, "machine": MACHINE}


def _cost(total: Total, price: float | None) -> dict[str, Any]:
    mean, low, high, unknown = total
    cost = {
        "device_hours": None if unknown else mean / 3600,
        "device_hours_range": None if unknown else [low / 3600, high / 3600],
        "stages_of_unknown_cost": unknown,
        "known_device_hours": mean / 3600,
    }
    if price is None:
        return cost
    dollars = {
        "dollars": None if unknown else price * mean / 3600,
        "dollars_range": None if unknown else [price * low / 3600, price * high / 3600],
        "known_dollars": price * mean / 3600,
    }
    return {**cost, **dollars}
