"""The accuracy-leak frontier: which recipes no other beats in every objective, and how much of the plane they cover.

Hypervolume (Zitzler and Thiele, 1998) is the area or volume of what a set of points dominates, up to a reference
point that is worse in every objective. It is exact here: a sweep in two dimensions, slices of it in three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError

Direction = Literal["max", "min"]


def accuracy_leak_frontier(
    accuracy: ArrayLike, leak: ArrayLike, *, min_accuracy: float | None = None
) -> tuple[int, ...]:
    """Indices of the points of enough accuracy that no other such point beats in both accuracy and leak.

    By falling accuracy, on a tie by rising leak, then by index; points that agree in both are all members.

    Args:
        accuracy, leak: [n], finite.
        min_accuracy: Points below it are left out; equal to it is enough.

    No points at all, or none accurate enough, give an empty frontier. Raises InputError for shapes that do not match
    or values that are not finite.
    """
    columns = [np.asarray(accuracy, dtype=np.float64), np.asarray(leak, dtype=np.float64)]
    count = len(columns[0]) if columns[0].ndim == 1 else -1
    if count < 0 or columns[1].shape != (count,):
        raise InputError(
            f"frontier: expected accuracy and leak of one length, got {columns[0].shape} and {columns[1].shape}"
        )
    if not count:
        return ()
    if min_accuracy is not None and not np.isfinite(min_accuracy):
        raise InputError(f"frontier: min_accuracy: expected a finite number or None, got {min_accuracy}")
    costs = _costs(np.column_stack(columns), ("max", "min"))
    allowed = np.arange(count) if min_accuracy is None else np.flatnonzero(columns[0] >= min_accuracy)
    members = allowed[_undominated(costs[allowed])]
    ordered = sorted(members.tolist(), key=lambda index: (*costs[index], index))
    return tuple(ordered)


def pareto_mask(points: ArrayLike, directions: Sequence[Direction]) -> np.ndarray:
    """Which points [n, d] no other point dominates: bool [n].

    A point dominates another if it is at least as good in every objective and better in one, so equal points do not
    dominate each other. directions: "max" or "min" for each of the d objectives. Raises InputError for values that
    are not finite, or directions that do not match.
    """
    return _undominated(_costs(points, directions))


def hypervolume(points: ArrayLike, reference: ArrayLike, directions: Sequence[Direction]) -> float:
    """Area (d = 2) or volume (d = 3) between the points [n, d] and the reference point [d].

    In the product of the objectives' units, at least 0. A point that is not better than the reference in every
    objective adds nothing; no points, shape [0, d], give 0. Dominated points and the order of points do not matter.
    Raises InputError for d other than 2 and 3, values that are not finite, or directions that do not match.
    """
    costs = _costs(points, directions)
    limit = _costs(np.asarray(reference, dtype=np.float64).reshape(1, -1), directions)[0]
    if costs.shape[1] not in (2, 3):
        raise InputError(f"hypervolume: expected 2 or 3 objectives, got {costs.shape[1]}")
    inside = costs[(costs < limit).all(axis=1)]
    if not len(inside):
        return 0.0
    if costs.shape[1] == 2:
        return _area(limit - inside)
    return _volume(limit - inside[_undominated(inside)])  # slicing costs the square of the points it is given


def _costs(points: ArrayLike, directions: Sequence[Direction]) -> np.ndarray:
    """Points [n, d] with every objective turned so that smaller is better."""
    matrix = np.asarray(points, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(directions) or not len(directions):
        raise InputError(
            f"points: expected shape [n, {len(directions)}] for {len(directions)} directions, got {list(matrix.shape)}"
        )
    unknown = [name for name in directions if name not in ("max", "min")]
    if unknown:
        raise InputError(f"directions: expected max or min, got {unknown[0]!r}")
    if not np.isfinite(matrix).all():
        raise InputError("points: expected finite numbers, got NaN or infinity")
    return matrix * np.array([-1.0 if name == "max" else 1.0 for name in directions])


def _undominated(costs: np.ndarray) -> np.ndarray:
    """bool [n]. In lexicographic order only an earlier point can dominate a later one."""
    mask = np.zeros(len(costs), dtype=bool)
    kept = np.empty((0, costs.shape[1]))
    for index in np.lexsort(costs.T[::-1]):
        point = costs[index]
        dominated = ((kept <= point).all(axis=1) & (kept < point).any(axis=1)).any()
        if not dominated:
            mask[index] = True
            kept = np.vstack([kept, point])
    return mask


def _area(gains: np.ndarray) -> float:
    """Union of the rectangles from the origin to each row [n, 2], by a sweep along falling first gain."""
    order = np.lexsort((-gains[:, 1], -gains[:, 0]))
    area, height = 0.0, 0.0
    for width, top in gains[order]:
        if top > height:
            area += width * (top - height)
            height = top
    return float(area)


def _volume(gains: np.ndarray) -> float:
    """Union of the boxes from the origin to each row [n, 3]: between two values of the third gain the slice is
    the area of the boxes that reach that far."""
    levels = np.unique(gains[:, 2])
    thickness = np.diff(levels, prepend=0.0)
    return float(
        sum(depth * _area(gains[gains[:, 2] >= level, :2]) for level, depth in zip(levels, thickness, strict=True))
    )
