"""Which recipes are audited again: those on the accuracy-leak frontier, where selection flatters most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.frontier import Direction, accuracy_leak_frontier
from smoothsweep.orchestrator.planning.proposals import recipe_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.search.shared.outcomes import metrics_of, worst_mean
from smoothsweep.orchestrator.search.shared.ranking import crowding
from smoothsweep.orchestrator.stages.stage import canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep


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
