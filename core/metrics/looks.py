"""Looks: a comparison that is asked again after more seeds, with its error spent over all the times it is asked.

Who trains more seeds until a difference is clear, and asks each time at 5 %, is wrong more often than in 5 %. In a
group-sequential design the numbers of seeds at which one looks are fixed beforehand, and every look has its own,
smaller error, so that all looks together err as often as one would. Let the information at look k be in proportion to
its seeds, t_k = n_k / n_K. Without any difference the standardised differences Z_k are normal with correlations
sqrt(t_j / t_k), j < k, so Z_k sqrt(t_k) is a random walk. The bounds are

    |Z_k| > c              (Pocock, 1977, Biometrika 64: the same error at every look)
    |Z_k| > c / sqrt(t_k)  (O'Brien and Fleming, 1979, Biometrics 35: little at first, most at the last)

with c such that the walk leaves them at any look with probability alpha; it is found by integrating the walk's density
from look to look (Armitage, McPherson and Rowe, 1969, J. R. Stat. Soc. A 132). The error of look k is
2 (1 - Phi(bound)). Classes are the same at every look, which correlates looks more than this and only makes errors
rarer.

An interval at the look's own error is a repeated confidence interval (Jennison and Turnbull, 1989, J. R. Stat. Soc. B
51): all looks' intervals hold at once with probability 1 - alpha, so it holds whatever made one stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS

Spend = Literal["pocock", "obrien-fleming"]

_LEAST_NODES, _MOST_NODES = 40, 400
_NODES_PER_STEP = 5  # of the quadrature, in a standard deviation of the walk's next step


@dataclass(frozen=True, kw_only=True)
class Looks:
    """When a comparison is asked, and at which errors.

    Raises InputError for anything else.

    Attributes:
        seeds: How many seeds each look has, increasing, at least `LEAST_SEEDS`.
        alpha: The error of all looks together, in (0, 1).
        spend: How it is spent over them.
    """

    seeds: tuple[int, ...]
    alpha: float = 0.05
    spend: Spend = "pocock"

    def __post_init__(self) -> None:
        """Check them."""
        seeds = ", ".join(map(str, self.seeds))
        if not self.seeds or self.seeds[0] < LEAST_SEEDS:
            raise InputError(f"looks: expected at least {LEAST_SEEDS} seeds at the first look, got [{seeds}]")
        if any(later <= earlier for earlier, later in zip(self.seeds, self.seeds[1:], strict=False)):
            raise InputError(f"looks: expected increasing numbers of seeds, got [{seeds}]")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha: expected a number between 0 and 1, got {self.alpha}")
        if self.spend not in get_args(Spend):
            raise InputError(f"spend: expected one of {', '.join(get_args(Spend))}, got {self.spend!r}")

    @property
    def errors(self) -> tuple[float, ...]:
        """The error of every look."""
        return _errors(self.seeds, self.alpha, self.spend)


def settled(low: np.ndarray | float, high: np.ndarray | float, *, smallest: float | None) -> np.ndarray:
    """Whether intervals [...] leave nothing to be asked: they leave out 0, or lie within +- `smallest`, the smallest
    difference of interest (above 0; None where every difference is of interest)."""
    differs = (np.asarray(low) > 0) | (np.asarray(high) < 0)
    if smallest is None:
        return differs
    return differs | ((np.asarray(low) >= -smallest) & (np.asarray(high) <= smallest))


@lru_cache(maxsize=64)
def _errors(seeds: tuple[int, ...], alpha: float, spend: Spend) -> tuple[float, ...]:
    from scipy import optimize, special  # as in `core.metrics.verdicts`

    fractions = np.array(seeds, dtype=np.float64) / seeds[-1]
    shape = np.ones(len(seeds)) if spend == "pocock" else 1 / np.sqrt(fractions)

    def excess(constant: float) -> float:
        return leaving(constant * shape, fractions) - alpha

    single = -special.ndtri(alpha / 2)
    most = -special.ndtri(alpha / 2 / len(seeds))  # Bonferroni's bound at every look is never too narrow
    constant = single if len(seeds) == 1 else optimize.brentq(excess, single * shape.min(), most, xtol=1e-10)
    return tuple((2 * special.ndtr(-constant * shape)).tolist())


def leaving(bounds: Sequence[float] | np.ndarray, fractions: Sequence[float] | np.ndarray) -> float:
    """The probability that the standardised walk leaves +- `bounds` at any look.

    bounds: above 0, by look. fractions: information of each look, increasing, of any unit.
    """
    ends = np.asarray(bounds) * np.sqrt(fractions)
    steps = np.sqrt(np.diff(fractions, prepend=0.0))
    places, density = np.zeros(1), np.ones(1)
    for number, (end, step) in enumerate(zip(ends, steps, strict=True)):
        # A density must be resolved by the step that made it and by the one that follows.
        finest = min(steps[number : number + 2])
        many = int(np.clip(_NODES_PER_STEP * end / finest, _LEAST_NODES, _MOST_NODES))
        nodes, masses = np.polynomial.legendre.leggauss(many)
        arrived = end * nodes
        kernel = np.exp(-(((arrived[:, None] - places[None, :]) / step) ** 2) / 2) / (step * np.sqrt(2 * np.pi))
        places, density = arrived, (kernel @ density) * end * masses
    return float(1 - density.sum())
