"""Positions of recipes in a search space: by dimension, and as points for a model of the objective."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smoothsweep.orchestrator.search.shared.setup import Setup
from smoothsweep.sweeps.space import Dimension, Positions, Space, Values


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


def shares_of(space: Space, positions: Mapping[str, float | int]) -> np.ndarray:
    """Positions as shares [d] of their dimensions, in [0, 1], the ends included."""
    return np.array([_share(dimension, positions[dimension.key]) for dimension in space.dimensions])


def points_of(space: Space, positions: Mapping[str, float | int]) -> np.ndarray:
    """Positions as a point [p]: the share of an ordered dimension, one column for each name of another.

    Two different names of one dimension are one apart, as the two ends of an ordered dimension are.
    """
    columns: list[float] = []
    for dimension in space.dimensions:
        position = positions[dimension.key]
        if _is_ordered(dimension):
            columns.append(_share(dimension, position))
        else:
            columns.extend(np.sqrt(0.5) * (index == position) for index in range(len(dimension.values or ())))
    return np.array(columns)


def groups_of(space: Space) -> np.ndarray:
    """The dimension, by number, of every column of `points_of`: [p]."""
    widths = [1 if _is_ordered(dimension) else len(dimension.values or ()) for dimension in space.dimensions]
    return np.repeat(np.arange(len(widths)), widths)


def from_shares(space: Space, shares: np.ndarray) -> Values:
    """The recipe at these shares [d]."""
    by_key = dict(zip(space.keys, shares, strict=True))
    return space.choose(lambda dimension: dimension.spread(float(by_key[dimension.key])))[0]


def _is_ordered(dimension: Dimension) -> bool:
    return dimension.above is not None or dimension.values is None or dimension.is_ordered


def _share(dimension: Dimension, position: float | int) -> float:
    if dimension.above is not None:
        return float(position)
    if dimension.values is not None:
        return position / max(1, len(dimension.values) - 1)
    low, high, at = (np.log(x) if dimension.log else x for x in (dimension.low, dimension.high, position))
    return float((at - low) / (high - low)) if high > low else 0.0
