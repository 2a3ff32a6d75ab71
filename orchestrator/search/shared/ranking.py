"""Which recipes are better in several objectives at once: non-dominated ranks, then how lonely a recipe is.

The ordering of NSGA-II (Deb et al., 2002, section III): constraints first, then rank, then crowding distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from smoothsweep.core.metrics.frontier import Direction, pareto_mask
from smoothsweep.orchestrator.search.shared.outcomes import Outcome


def best(outcomes: Mapping[int, Outcome], directions: Mapping[str, Direction], count: int) -> list[int]:
    """Numbers of the `count` best among those that are done and meet the constraints, best first.

    Ties go to the smaller number. If none meets the constraints, the one that misses them by least goes on alone, so
    that a search never ends with nothing.
    """
    done = {number: outcome for number, outcome in sorted(outcomes.items()) if outcome.status == "done"}
    allowed = [number for number, outcome in done.items() if outcome.feasible]
    if not allowed:
        misses = {
            number: sum(max(0.0, miss) for miss in outcome.violations.values()) for number, outcome in done.items()
        }
        return sorted(misses, key=lambda number: (misses[number], number))[:1]
    points = np.array([[done[number].objectives[column] for column in directions] for number in allowed], dtype=float)
    return [allowed[index] for index in ordered(points, list(directions.values()))[:count]]


def ordered(points: np.ndarray, directions: Sequence[Direction]) -> list[int]:
    """Indices of the points [n, d], best first: by rank, then by falling crowding distance, then by index."""
    order: list[int] = []
    for front in fronts(points, directions):
        lonely = crowding(points[front])
        order += [front[place] for place in sorted(range(len(front)), key=lambda i: (-lonely[i], front[i]))]
    return order


def fronts(points: np.ndarray, directions: Sequence[Direction]) -> list[list[int]]:
    """Indices of the points that nothing dominates, then of those that only the first dominate, and so on."""
    remaining, ordered_fronts = np.arange(len(points)), []
    while len(remaining):
        mask = pareto_mask(points[remaining], directions)
        ordered_fronts.append(remaining[mask].tolist())
        remaining = remaining[~mask]
    return ordered_fronts


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
