"""How many seeds, or seeds and classes, would settle a comparison that is undecided.

From each recipe's own estimated reduction and the components of all recipes together, as `power` plans them: with so
many seeds the interval leaves out 0 in 80 % of sweeps, if the estimate is the truth. A recipe whose trainings vary more
than the others' counts with its own spread, as the rule of comparisons does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from smoothsweep.core.metrics.components import Components, components_of, weights_against_baseline
from smoothsweep.core.metrics.crossed_effects import mean_squares
from smoothsweep.core.metrics.power import Design, seeds_to_detect
from smoothsweep.core.metrics.reduction import Bounded


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How much would settle a comparison.

    Attributes:
        seeds: So many seeds of every recipe; None where no number up to `power.MOST_SEEDS` would.
        classes: Number of classes: those that there are where seeds alone would do, else all that could be attacked;
            None where nothing would.
        more_classes: Whether these are more classes than the comparison has.
    """

    seeds: int | None
    classes: int | None
    more_classes: bool = False


def needed(
    cells: np.ndarray,
    baseline: int,
    undecided: Mapping[int, Bounded],
    *,
    level: float = 0.95,
    smallest: float | None = None,
    available: int | None = None,
) -> dict[int, Needed]:
    """Recipe -> how much would settle whether it leaks less or more than the baseline.

    Args:
        cells: [recipes, attacks, seeds, classes], at least two seeds.
        baseline: The baseline's number among the recipes.
        undecided: Number of a recipe -> its reduction and interval.
        smallest: The smallest difference of interest; an interval that lies within it is settled, and its recipe is
            left out.
        available: How many classes could be attacked, None where that is not known.
    """
    if not undecided:
        return {}
    recipes, attacks, seeds, classes = cells.shape
    design = Design(seeds=seeds, classes=classes, recipes=recipes, attacks=attacks)
    pooled, spreads = components_of(cells, baseline=baseline), _spreads(cells, baseline)
    by_recipe = {}
    for recipe, interval in undecided.items():
        if not _is_negligible(interval, smallest):
            own = replace(pooled, seed=max(pooled.seed, spreads[recipe]))
            by_recipe[recipe] = _needed(own, design, abs(interval.value), level, available)
    return by_recipe


def _needed(components: Components, design: Design, gap: float, level: float, available: int | None) -> Needed:
    if gap > 0:
        now, more = design.classes, available or 0
        if (seeds := seeds_to_detect(components, design, gap, level=level)) is not None:
            return Needed(seeds=max(seeds, design.seeds + 1), classes=now)
        larger = replace(design, classes=more)
        if more > now and (seeds := seeds_to_detect(components, larger, gap, level=level)) is not None:
            return Needed(seeds=seeds, classes=more, more_classes=True)
    return Needed(seeds=None, classes=None)


def _spreads(cells: np.ndarray, baseline: int) -> dict[int, float]:
    """Recipe -> standard deviation that seeds alone give to its difference from the baseline, from these two alone;
    rounded up to two digits, so that recipes which vary alike are planned once."""
    recipes, attacks, _, classes = cells.shape
    squares = mean_squares(cells, weights_against_baseline(recipes, attacks, baseline))
    if squares.residual is None:
        return dict.fromkeys(range(recipes), 0.0)
    beyond = np.maximum(0.0, squares.seeds_own - squares.residual)[::attacks] / classes
    others = [recipe for recipe in range(recipes) if recipe != baseline]
    return {recipe: _rounded_up(math.sqrt(square)) for recipe, square in zip(others, beyond.tolist(), strict=True)}


def _rounded_up(value: float) -> float:
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def _is_negligible(interval: Bounded, smallest: float | None) -> bool:
    if smallest is None or interval.low is None or interval.high is None:
        return False
    return -smallest <= interval.low and interval.high <= smallest
