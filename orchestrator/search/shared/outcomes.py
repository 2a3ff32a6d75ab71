"""How a proposal came out: its objectives, read from the store's artifacts.

An objective of a recipe is the mean over its seeds of the worst case over its attacks: the attacker picks the attack.
So of a column that is to be small the largest value counts under each seed, and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import Constraint, Direction

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
        objectives = {column: values.get(column) for column in self.objectives}
        known = all(values.get(column) is not None for column in (*self.objectives, *self.constraints))
        violations = {
            column: constraint.violation(value)
            for column, constraint in self.constraints.items()
            if (value := values.get(column)) is not None
        }
        return Outcome(
            status=DONE if known else FAILED,
            objectives=objectives,
            violations=violations,
            by_seed=(by_seed or {}) if known else {},
        )

    def ways(self) -> dict[str, Direction]:
        """Every column that is looked at -> the direction a defender wants: the worst case is the other."""
        ways: dict[str, Direction] = {}
        for column, constraint in self.constraints.items():
            ways[column] = "max" if constraint.at_least is not None else "min"
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
