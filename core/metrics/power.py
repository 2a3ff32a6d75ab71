"""Which differences a sweep can tell before it has run, and how many seeds and classes a difference needs.

The difference of two recipes varies by three components, with S seeds, C classes and m images of each class:

    Var = seed^2 / S + person^2 / C + (cell^2 + image^2 / m) / (S C)

`planned` draws the mean squares that such a sweep would measure from their chi-square distributions, and asks the rule
of `crossed_effects` and `verdicts` what it makes of each draw. The guard, the choice between Satterthwaite's
and Banerjee's sum, and Dunnett's quantile are therefore those of the report. A difference counts as told where the
interval leaves out 0 in 80 % of such sweeps.

Three assumptions: one attack is the strongest against either recipe, the effects are normal, and attacks share all that
seeds do and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.components import Components
from smoothsweep.core.metrics.crossed_effects import MeanSquares, freedoms_of
from smoothsweep.core.metrics.dunnett import Dunnett
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS, Errors

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
class Planned:
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
def planned(components: Components, design: Design, *, level: float = 0.95, power: float = POWER) -> Planned:
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
    return Planned(error=error, half=float(halves.mean()), tells=_detectable_difference(halves, error, power))


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
    for high in (number for number in _SEEDS_TRIED if LEAST_SEEDS <= number <= most):
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
