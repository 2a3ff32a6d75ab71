"""Which differences a sweep can tell before it has run, and how many seeds and classes a difference needs.

Three components make up the variance of a difference, with S seeds, C classes and m images of each class:

    Var = seed^2 / S + person^2 / C + (cell^2 + image^2 / m) / (S C)

`planned` draws the mean squares that such a sweep would measure from their chi-square distributions, and asks the rule
of `verdicts` what it makes of each draw. The guard, the choice between Satterthwaite's and Banerjee's sum, and
Dunnett's quantile are therefore those of the report. A difference counts as told where the interval leaves out 0 in 80
% of such sweeps.

Three assumptions: one attack is the strongest against either recipe, the effects are normal, and attacks share all that
seeds do and nothing else.

Components: seeds, classes, both together, and single images. Each follows from the mean squares of `verdicts`. With S
seeds, C classes and m images in each cell, and averaged over the recipes beside the baseline under every attack:

    MS_E = cell^2 + image^2 / m,    MS_S = C seed^2 + MS_E,    MS_C = S person^2 + MS_E

image^2 is twice the binomial variance p (1 - p) of one image, estimated within the cells.

Whether an undecided comparison can be settled (`needed`) follows from each recipe's own estimated reduction and the
components of all recipes together, planned the same way: with so many seeds the interval leaves out 0 in 80 % of
sweeps, if the estimate is the truth. A recipe whose trainings vary more than the others' counts with its own spread, as
the rule of comparisons does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.looks import settled
from smoothsweep.core.metrics.verdicts import (
    LEAST_SEEDS,
    Bounded,
    CrossedEffects,
    Dunnett,
    Errors,
    MeanSquares,
    freedoms_of,
)


@dataclass(frozen=True, kw_only=True)
class Components:
    """What the difference of two recipes varies by: standard deviations in the unit of the leak.

    Attributes:
        seed: Deviation of a training, the same for all classes.
        person: Deviation of a class, the same for all seeds.
        cell: Deviation of a class under a seed, beside the chance of its images.
        image: Deviation of a single reconstruction within its cell, a yes or no; None where it is not known apart from
            `cell`.
    """

    seed: float
    person: float
    cell: float
    image: float | None = None

    def of_cell(self, images: int | None) -> float:
        """The variance of a cell with so many images."""
        if self.image is None or images is None:
            return self.cell**2
        return self.cell**2 + self.image**2 / images


QUICKSTART = Components(seed=0.032, person=0.142, cell=0.1485, image=0.4865)
"""Measured on the quickstart: with 4 images of each class, 3.2, 14.2 and 28.5 points."""


def components_of(cells: np.ndarray, *, baseline: int = 0, images: int | None = None) -> Components:
    """Estimate the components of differences from a baseline, on average over recipes and attacks.

    Args:
        cells: [recipes, attacks, seeds, classes], at least two recipes and seeds.
        baseline: The baseline's number among the recipes.
        images: How many yes-or-no images each cell is the mean of, None where cells are no such means.
    """
    recipes, attacks, seeds, classes = cells.shape
    squares = CrossedEffects(cells=cells).mean_squares(weights_against_baseline(recipes, attacks, baseline))
    of_seeds = float(squares.seeds.mean())
    if squares.residual is None or squares.classes is None:
        return Components(seed=0.0, person=0.0, cell=float(np.sqrt(of_seeds)))
    residual = float(squares.residual.mean())
    person = max(0.0, float(squares.classes.mean()) - residual) / seeds
    seed = max(0.0, of_seeds - residual) / classes
    if images is None or images < 2:
        return Components(seed=float(np.sqrt(seed)), person=float(np.sqrt(person)), cell=float(np.sqrt(residual)))
    image = 2 * float((cells * (1 - cells)).mean()) * images / (images - 1)
    cell = max(0.0, residual - image / images)
    return Components(
        seed=float(np.sqrt(seed)), person=float(np.sqrt(person)), cell=float(np.sqrt(cell)), image=float(np.sqrt(image))
    )


def weights_against_baseline(recipes: int, attacks: int, baseline: int) -> np.ndarray:
    """Every recipe's contrast with the baseline under the same attack, [contrasts, recipes, attacks]."""
    others = [recipe for recipe in range(recipes) if recipe != baseline]
    weights = np.zeros((len(others) * attacks, recipes, attacks))
    for row, (recipe, attack) in enumerate((recipe, attack) for recipe in others for attack in range(attacks)):
        weights[row, recipe, attack], weights[row, baseline, attack] = -1.0, 1.0
    return weights


POWER = 0.8
"""The chance with which a difference is found that counts as told."""

MOST_SEEDS = 50
"""More than is ever trained: a difference that needs more seeds needs more classes."""

_SEEDS_TRIED = (*range(LEAST_SEEDS, 9), 10, 12, 15, 18, 22, 27, 33, 41, MOST_SEEDS)
"""Numbers of seeds that are looked at; those between them only below the first that will do."""

_DRAWS = 400
_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class Design:
    """The size of a sweep.

    Attributes:
        images: Reconstructions of each class, None where they are not known.
        recipes: All of them, the baseline included.
        attacks: Number of attacks that the strongest is chosen from.
    """

    seeds: int
    classes: int
    recipes: int = 2
    attacks: int = 1
    images: int | None = None

    def checked(self, where: str) -> Design:
        """Itself. Raises InputError for a design that can tell no difference, beginning with `where`."""
        for name, value, minimum in (
            ("seeds", self.seeds, LEAST_SEEDS),
            ("classes", self.classes, 2),
            ("recipes", self.recipes, 2),
            ("attacks", self.attacks, 1),
        ):
            if value < minimum:
                raise InputError(f"{where}: expected a sweep of at least {minimum} {name}, got {value}")
        return self


@dataclass(frozen=True, kw_only=True)
class Detectable:
    """What a design can tell, in the unit of the leak.

    Attributes:
        error: The standard error of a difference.
        half: The expected half-width of its simultaneous interval.
        tells: The smallest difference that is told with a power of `POWER`.
    """

    error: float
    half: float
    tells: float


@lru_cache(maxsize=4096)
def planned(components: Components, design: Design, *, level: float = 0.95, power: float = POWER) -> Detectable:
    """What the rule of comparisons can tell of such a sweep.

    level: in (0, 1), of the intervals of all recipes together. power: in (0, 1), the chance that `tells` is found.
    A design of a single class has no part of the classes; `Design.checked` refuses it where people ask.
    """
    seeds, classes = design.seeds, design.classes
    drawn = _drawn(components, design)
    variances = drawn.variances(seeds, classes)
    errors = Errors(
        variances=variances,
        freedoms=freedoms_of(design.recipes, seeds, classes),
        flat=np.zeros(variances.shape[1:], dtype=bool),
        numbers=seeds * classes,
    )
    freedoms = np.array([_freedom_alone(components, design), classes - 1.0][: len(variances)])
    guard = replace(errors, variances=drawn.guard_variances(seeds, classes), freedoms=freedoms)
    errors = replace(errors, guard=guard)
    others = max(1, design.recipes - 1)
    correction = Dunnett(comparisons=design.attacks * others, recipes=others + 1)
    halves = errors.half_widths(np.zeros(_DRAWS), 1 - level, correction)
    of_classes = components.person**2 / classes if classes > 1 else 0.0
    over = seeds * classes
    error = float(np.sqrt(components.seed**2 / seeds + of_classes + components.of_cell(design.images) / over))
    return Detectable(error=error, half=float(halves.mean()), tells=_detectable_difference(halves, error, power))


def seeds_to_detect(
    components: Components, design: Design, difference: float, *, level: float = 0.95, most: int = MOST_SEEDS
) -> int | None:
    """The least number of seeds, from `LEAST_SEEDS` on, with which a difference is told; None if `most` would not do.

    difference: above 0, in the unit of the leak. design: its own seeds do not count. With a few classes, more seeds may
    tell less: they leave the classes a larger part of the variance, which has few degrees of freedom.
    """

    def tells(seeds: int) -> bool:
        return planned(components, replace(design, seeds=seeds), level=level).tells <= difference

    low = LEAST_SEEDS - 1  # too few
    for high in sorted({*(number for number in _SEEDS_TRIED if number < most), most}):
        if tells(high):
            break
        low = high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle, high)
    return high


def _drawn(components: Components, design: Design) -> MeanSquares:
    """Mean squares that sweeps of this design would measure, [draws] each."""
    seeds, classes, others = design.seeds, design.classes, max(0, design.recipes - 2)
    cell = components.of_cell(design.images)
    expected = classes * components.seed**2 + cell
    freedom = _freedom_alone(components, design)
    own = expected * _chi_squares(freedom, 0)
    rest = expected * _chi_squares(others * (seeds - 1), 1) if others else 0.0
    pooled = (own + others * rest) / (1 + others)
    # The spreads of two equal recipes differ by twice the product of the sum and the difference of their effects, which
    # are independent: given the difference, a normal variable.
    alone = own + np.sqrt(expected * own / freedom) * _half_normals()
    if classes == 1:
        return MeanSquares(seeds=pooled, seeds_own=own, seeds_alone=alone, classes=None, residual=None)
    return MeanSquares(
        seeds=pooled,
        seeds_own=own,
        seeds_alone=alone,
        classes=(seeds * components.person**2 + cell) * _chi_squares(classes - 1, 2),
        residual=cell * _chi_squares((1 + others) * (seeds - 1) * (classes - 1), 3),
    )


def _freedom_alone(components: Components, design: Design) -> float:
    """Degrees of freedom of what two recipes alone say of the seeds, where all that seeds do is shared by the attacks
    and all else is not."""
    of_seeds = components.seed**2
    total = of_seeds + components.of_cell(design.images) / design.classes
    shared = of_seeds / total if total > 0 else 1.0
    return (design.seeds - 1) * design.attacks / (1 + (design.attacks - 1) * shared**2)


@lru_cache(maxsize=4096)
def _chi_squares(freedom: float, stream: int) -> np.ndarray:
    """Evenly spread quantiles of chi-square over its degrees of freedom, [draws], in an order of the stream's own."""
    order = np.random.default_rng(stream).permutation(_DRAWS)
    return 2 * special.gammaincinv(freedom / 2, (order + 0.5) / _DRAWS) / freedom


@lru_cache(maxsize=1)
def _half_normals() -> np.ndarray:
    """Evenly spread quantiles of the size of a normal variable, [draws], in an order of their own."""
    order = np.random.default_rng(4).permutation(_DRAWS)
    return special.ndtri(0.5 + (order + 0.5) / (2 * _DRAWS))


def _detectable_difference(halves: np.ndarray, error: float, power: float) -> float:
    """The difference that exceeds its half-width with this chance, where its estimate has this standard error."""
    if error == 0:
        return float(np.quantile(halves, power))
    low, high = 0.0, float(halves.max()) + 40 * error
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        chance = float(special.ndtr((middle - halves) / error).mean())
        low, high = (low, middle) if chance >= power else (middle, high)
    return high


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
        if interval.low is None or interval.high is None or not settled(interval.low, interval.high, smallest=smallest):
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
    squares = CrossedEffects(cells=cells).mean_squares(weights_against_baseline(recipes, attacks, baseline))
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
