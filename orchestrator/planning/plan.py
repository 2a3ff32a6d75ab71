"""What would run: trials, stages, what is already there, what it is likely to cost. Starts nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.costs import DeviceTime, History, total_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, lacks_files, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import Sweep
from smoothsweep.sweeps.schema import Resources
from smoothsweep.tasks.registry import stage_title

if TYPE_CHECKING:
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts

Held = Callable[[Stage], float]  # how many devices, or what share of one, a stage holds


@dataclass(frozen=True, kw_only=True)
class SearchForecast:
    """What a search may still propose and audit again, told from a few recipes drawn out of its space.

    Attributes:
        recipes: How many more it may propose at most.
        again: How many of all are to be audited again.
        settings: The settings of one of them.
        steps: (how many recipes, sample recipes as the stages that each of them adds) for every attack that they meet.
        shared: Stages that all of them need.
        budget_hours: Device-hours that are left of the sweep's budget, None without one.
        looks: Seeds of the looks that may follow, in a sweep with looks; steps then holds the most that they train.
        trials: How many trials that is at most.
    """

    recipes: int
    again: int = 0
    settings: Sweep
    steps: tuple[tuple[int, tuple[tuple[Stage, ...], ...]], ...] = ()
    shared: tuple[Stage, ...] = ()
    budget_hours: float | None = None
    looks: tuple[int, ...] = ()
    trials: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Trials of a sweep, their distinct stages (inputs first), and which of those have artifacts.

    Attributes:
        cached: Fingerprints of those.
        history: What stages have cost in the store.
        forecast: What a search may still propose; None where there is nothing more to come.
    """

    trials: list[Trial]
    stages: list[Stage]
    cached: frozenset[str]
    history: History = field(default_factory=History, compare=False)
    forecast: SearchForecast | None = None

    @cached_property
    def missing(self) -> list[Stage]:
        """Stages that must run, inputs first: no artifact, and some trial still needs them.

        A finished stage does not need its inputs any more, so those are not made again if they were deleted.
        """
        if not self.cached:
            return self.stages
        needed = {stage.fingerprint for trial in self.trials for stage in trial.stages} - self.cached
        for stage in reversed(self.stages):  # readers before their inputs
            if stage.fingerprint in needed:
                inputs = [source.fingerprint for source in stage.inputs.values()]
                needed.update([fingerprint for fingerprint in inputs if fingerprint not in self.cached])
        return [stage for stage in self.stages if stage.fingerprint in needed]

    def is_complete(self, trial: Trial) -> bool:
        return all(stage.fingerprint in self.cached for stage in trial.stages)

    def with_trials(self, trials: list[Trial], store: Store) -> Plan:
        """The plan of these trials too; only their stages that it does not know are looked up."""
        known = {stage.fingerprint for stage in self.stages}
        stages = with_ancestors([*self.stages, *(stage for trial in trials for stage in trial.stages)])
        found = {s.fingerprint for s in stages if s.fingerprint not in known and store.has(s)}
        return replace(self, trials=[*self.trials, *trials], stages=stages, cached=self.cached | found)


def make_plan(trials: list[Trial], store: Store, forecast: SearchForecast | None = None) -> Plan:
    """Look every stage up in the store; a damaged artifact does not count, and is told of."""
    stages = with_ancestors([stage for trial in trials for stage in trial.stages])
    present = {name: store.finished(name) for name in {stage.name for stage in stages}}
    cached = frozenset(s.fingerprint for s in stages if s.fingerprint in present[s.name] and store.has(s))
    history = History(store, known=stages)
    return Plan(trials=trials, stages=stages, cached=cached, history=history, forecast=forecast)


def refuse_impossible(plan: Plan) -> None:
    """Raise InputError for work that a stage would refuse, before any other stage has run."""
    for stage in plan.missing:
        inputs = {name: {**source.config, **source.hints} for name, source in stage.inputs.items()}
        try:
            if not lacks_files(stage.config):
                stage.task.refuse({**stage.config, **stage.hints}, inputs)
        except InputError as error:
            raise InputError(f"{stage_title(stage.name)}: {error}") from None


def plan_summary(plan: Plan, price: float | None = None) -> dict[str, Any]:
    """Counts and expected cost of a plan as JSON values, by kind of stage too.

    Device-hours are null where the time of some stage is unknown; `measured_device_hours` and `rated_device_hours`, by
    the shipped rates, are the parts that are known. price: dollars per device-hour.
    """
    missing, forecast, history = {stage.fingerprint for stage in plan.missing}, plan.forecast, plan.history
    known = plan.trials[0].settings if plan.trials else None if forecast is None else forecast.settings
    held = devices_held(known, history) if known is not None else lambda _: 1.0
    kinds: dict[str, list[Stage]] = defaultdict(list)
    for stage in plan.stages:
        kinds[stage.name].append(stage)
    by_stage, costs, savings = {}, list[DeviceTime](), list[DeviceTime]()
    for name, stages in kinds.items():
        to_run = [stage for stage in stages if stage.fingerprint in missing]
        there = [stage for stage in stages if stage.fingerprint in plan.cached]
        costs.append(history.total(to_run, held))
        savings.append(history.total(there, held))
        counts = {"total": len(stages), "cached": len(there), "to_run": len(to_run)}
        by_stage[name] = {**counts, **_cost(costs[-1], price), "reused": _cost(savings[-1], price)}
    listed, further = total_of(costs), _forecast_time(forecast, history, held)
    budget = None if forecast is None or forecast.budget_hours is None else 3600 * forecast.budget_hours
    looks = search = None
    if forecast is not None and forecast.looks:
        looks = {
            "at_most_more_trials": forecast.trials,
            "seeds": list(forecast.looks),
            "without": _cost(listed, price),
            "without_stages": len(missing),
            **_cost(further, price),
        }
    elif forecast is not None:
        search = {
            "at_most_more_recipes": forecast.recipes,
            "at_most_audited_again": forecast.again,
            "budget_device_hours_left": forecast.budget_hours,
            **_cost(further, price),
        }
    return {
        "trials": len(plan.trials),
        "trials_complete": sum(plan.is_complete(trial) for trial in plan.trials),
        "stages": len(plan.stages),
        "stages_cached": len(plan.cached),
        "stages_to_run": len(missing),
        **_cost(total_of([listed, further]), price, budget),
        "price_per_device_hour": price,
        "measured_on": sorted(
            {one for name in {stage.name for stage in plan.missing} for one in history.devices(name)}
        ),
        "reused": {"stages": len(plan.cached), **_cost(total_of(savings), price)},
        "looks": looks,
        "search": search,
        "by_stage": by_stage,
    }


def _forecast_time(forecast: SearchForecast | None, history: History, held: Held) -> DeviceTime:
    """Device-time of all that a search may still propose.

    Each sample of a step stands for an equal part of its recipes. The least and the most are those of the cheapest and
    the dearest sample recipe, as often as there are recipes.
    """
    if forecast is None:
        return DeviceTime()
    parts = [history.total(forecast.shared, held)]
    for count, samples in forecast.steps:
        if samples:
            each = [history.total(sample, held) for sample in samples]
            of_one = DeviceTime(
                mean=count * fmean(time.mean for time in each),
                least=0.0 if forecast.looks else count * min(time.least for time in each),
                most=count * max(time.most for time in each),
                rated=count * fmean(time.rated for time in each),
                unknown=count * max(time.unknown for time in each),
            )
            parts.append(of_one)
    return total_of(parts)


def devices_held(settings: Sweep, history: History) -> Held:
    """How many devices a stage of this sweep occupies while it runs.

    A device is a GPU where such stages were measured on GPUs, and two tasks that share one hold half of it each.
    Elsewhere it is what runs one task. Every worker of a distributed training holds a device.
    """
    resources = settings.resources

    def held(stage: Stage) -> float:
        if (workers := stage.config.get("workers", 1)) > 1:
            return float(workers)
        if not stage.task.on_device or "cuda" not in history.devices(stage.name):
            return 1.0
        return (resources.gpus_per_training if stage.task.trains else resources.gpus_per_task) or 1.0

    return held


def _cost(total: DeviceTime, price: float | None, budget: float | None = None) -> dict[str, Any]:
    """Hours and dollars. budget: device-seconds that are left, which nothing exceeds."""
    most = math.inf if budget is None else budget
    measured, mean, low, high = (
        min(seconds, most) / 3600
        for seconds in (total.mean, *(total.rated + seconds for seconds in (total.mean, total.least, total.most)))
    )
    cost: dict[str, Any] = {
        "device_hours": None if total.unknown else mean,
        "device_hours_range": None if total.unknown else [low, high],
        "measured_device_hours": measured,
        "rated_device_hours": mean - measured,
        "stages_of_unknown_cost": total.unknown,
    }
    if price is not None:
        cost["dollars"] = None if total.unknown else price * mean
        cost["dollars_range"] = None if total.unknown else [price * low, price * high]
        cost["known_dollars"] = price * mean
    return cost


GPU_WISHES = {"gpus_per_training": True, "gpus_per_task": False}  # key of resources -> whether it is for trainings


def refuse_unfit(facts: ClusterFacts, resources: Resources, stages: Iterable[Stage]) -> None:
    """Raise InputError where a stage would wait for ever, or run on another device than the sweep asks for.

    stages: those that are to run. GPUs that the cluster promises (SMOOTHSWEEP_CLUSTER_GPUS) count as if they were
    there. A wish for GPUs that the sweep file does not state itself, the default, is no demand: CPUs do it then.
    """
    stages = list(stages)
    if stages and facts.node_cpus is not None and resources.cpus_per_task > facts.node_cpus:
        raise InputError(
            f"resources.cpus_per_task: expected at most {facts.node_cpus}, which the largest machine has, "
            f"got {resources.cpus_per_task}"
        )
    for key, trains in GPU_WISHES.items():
        wish, stated = getattr(resources, key), key in resources.model_fields_set
        if not any(stage.task.trains == trains for stage in stages):
            continue
        if wish > 1 and wish != int(wish):
            raise InputError(f"resources.{key}: expected at most 1 or a whole number, got {wish:g}")
        if not facts.gpus and stated and wish and not facts.is_local:
            raise InputError(
                f"resources.{key}: expected a cluster with GPUs, or with SMOOTHSWEEP_CLUSTER_GPUS set to those it can "
                f"grow to, got one without; {key} 0 asks for none"
            )
        most = facts.gpus if facts.node_gpus is None else facts.node_gpus
        if facts.gpus and wish > most:
            where = "the cluster" if facts.node_gpus is None else "the largest machine"
            raise InputError(f"resources.{key}: expected at most {most:g}, which {where} has, got {wish:g}")
    for stage in {stage.config["workers"]: stage for stage in stages if stage.config.get("workers", 1) > 1}.values():
        workers, where = stage.config["workers"], f"for the stage {stage_title(stage.name)}"
        if facts.gpus and workers > facts.gpus:
            most = f"{int(facts.gpus)}, the GPUs that the cluster has or can grow to"
            raise InputError(f"workers: expected at most {most}, got {workers} {where}")
        if not facts.gpus and workers > facts.cpus:
            most = f"{facts.cpus}, the CPUs of the cluster, which has no GPUs"
            raise InputError(f"workers: expected at most {most}; got {workers} {where}")
