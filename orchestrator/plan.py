"""What would run: trials, stages, what is already there, what it is likely to cost. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.history import read_history
from orchestrator.stage import Stage, with_ancestors
from orchestrator.store import MANIFEST, Store
from orchestrator.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Trials of a sweep, their distinct stages (inputs first), and which of those have artifacts."""

    trials: list[Trial]
    stages: list[Stage]
    cached: frozenset[str]  # fingerprints

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


def make_plan(trials: list[Trial], store: Store) -> Plan:
    """Look every stage up in the store."""
    stages = with_ancestors([stage for trial in trials for stage in trial.stages])
    present = {name: set(_finished(store, name)) for name in {stage.name for stage in stages}}
    cached = frozenset(s.fingerprint for s in stages if s.fingerprint in present[s.name])
    return Plan(trials=trials, stages=stages, cached=cached)


def _finished(store: Store, name: str) -> Iterator[str]:
    folder = store.root / name
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(entry.name) == 64 and os.path.exists(os.path.join(entry.path, MANIFEST)):
                    yield entry.name


def plan_summary(plan: Plan, store: Store) -> dict[str, Any]:
    """The plan as JSON values. Device-hours are null where a kind of stage was never measured in this store."""
    history = read_history(store, {stage.name for stage in plan.missing})
    missing = {stage.fingerprint for stage in plan.missing}
    by_kind: dict[str, dict[str, Any]] = {}
    for stage in plan.stages:
        row = by_kind.setdefault(stage.name, {"total": 0, "cached": 0, "to_run": 0, "stages": []})
        row["total"] += 1
        row["cached"] += stage.fingerprint in plan.cached
        row["to_run"] += stage.fingerprint in missing
        if stage.fingerprint in missing:
            row["stages"].append(stage)
    for row in by_kind.values():
        row.update(_cost(history.total(row.pop("stages"))))
    return {
        "trials": len(plan.trials),
        "trials_complete": sum(plan.is_complete(trial) for trial in plan.trials),
        "stages": len(plan.stages),
        "stages_cached": len(plan.cached),
        "stages_to_run": len(plan.missing),
        **_cost(history.total(plan.missing)),
        "by_stage": by_kind,
    }


def _cost(total: tuple[float, float, float, int]) -> dict[str, Any]:
    mean, low, high, unknown = total
    return {
        "device_hours": None if unknown else mean / 3600,
        "device_hours_range": None if unknown else [low / 3600, high / 3600],
        "stages_of_unknown_cost": unknown,
        "known_device_hours": mean / 3600,
    }


def plan_text(summary: dict[str, Any]) -> str:
    """The plan as lines for a terminal."""
    lines = [
        f"{summary['trials']} trials ({summary['trials_complete']} complete), {summary['stages']} stages: "
        f"{summary['stages_cached']} in the store, {summary['stages_to_run']} to run",
        "",
        f"  {'stage':<16} {'total':>6} {'cached':>7} {'to run':>7}   device time",
    ]
    for name, row in summary["by_stage"].items():
        lines.append(f"  {name:<16} {row['total']:>6} {row['cached']:>7} {row['to_run']:>7}   {_time_text(row)}")
    return "\n".join([*lines, "", f"expected device time: {_time_text(summary)}"])


def _time_text(row: dict[str, Any]) -> str:
    if row.get("to_run", row.get("stages_to_run")) == 0:
        return "-"
    if row["device_hours"] is None:
        known = f"{_hours(row['known_device_hours'])} + " if row["known_device_hours"] else ""
        return f"{known}unknown ({row['stages_of_unknown_cost']} stages never measured in this store)"
    low, high = row["device_hours_range"]
    return f"{_hours(row['device_hours'])} (between {_hours(low)} and {_hours(high)})"


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min" if hours >= 1 / 60 else f"{hours * 3600:.1f} s"
