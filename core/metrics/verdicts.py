"""Which way a difference points: the one place where "higher", "lower" and "inconclusive" are decided.

A difference of two recipes varies with the seeds (training and attack are random) and with the classes (other people
would have given another mean). Both variances are estimated, the one of the seeds from very few numbers. Where the
variance of the seeds has at least `LEAST_POOLED` degrees of freedom, the two are added up, with the degrees of freedom
of Satterthwaite (1946, Biometrics Bull. 2). With fewer, that is too sure of itself where the few seeds happen to lie
close together: two recipes under two seeds were found to differ in 9 to 13 % of simulations without any difference, at
a nominal 5 %. So each variance is then stretched by its own quantile before it is added (Banerjee, 1961, Sankhya 23):

    difference +- sqrt(sum_i q(alpha; freedom_i)^2 variance_i)

which covers at least at its level for any ratio of the true variances. Where recipes are compared with a baseline, no
interval is narrower than that of a guard, made in the same way from the two recipes alone (`crossed_effects`). One seed
says nothing of another training run, so it never tells; neither do equal differences without any spread, unless a sign
test would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from smoothsweep.core.metrics.dunnett import Bonferroni, Correction

Verdict = Literal["higher", "lower", "inconclusive"]
HIGHER: Verdict = "higher"
LOWER: Verdict = "lower"
INCONCLUSIVE: Literal["inconclusive"] = "inconclusive"

LEAST_SEEDS = 2
"""Least seeds with which a difference can be significant."""

LEAST_POOLED = 4
"""Degrees of freedom of the seeds' variance from which on Satterthwaite's approximation holds its level."""

ALONE = Bonferroni()
"""No correction: one planned comparison."""

_SMALLEST_P = 1e-14
_HALVINGS = 45  # of log p between 1 and the smallest: to 1e-12 of its value


@dataclass(frozen=True, kw_only=True)
class Errors:
    """What differences [..., pairs] vary by.

    Attributes:
        variances: Variances of the mean difference by every part, [parts, ..., pairs], in its squared unit; the first
            is that of the seeds.
        freedoms: [parts], or [parts, ..., 1] by sweep, degrees of freedom.
        flat: [..., pairs], where no spread was seen.
        numbers: Differences that each mean is over (seeds times classes), for the sign test of those without spread.
        guard: Errors from the recipes of each difference alone, which no interval may be narrower than where the
            correction says for how many recipes (`Dunnett.of_recipes`); None for no guard.
    """

    variances: np.ndarray
    freedoms: np.ndarray
    flat: np.ndarray
    numbers: int
    guard: Errors | None = None

    def of(self, chosen: np.ndarray) -> Errors:
        """The errors of some rows of pairs. chosen: bool [...], of the dimensions before the pairs."""
        freedoms = self.freedoms
        if freedoms.ndim > 1:
            freedoms = np.broadcast_to(freedoms, (len(freedoms), *chosen.shape, 1))[:, chosen]
        guard = None if self.guard is None else self.guard.of(chosen)
        return replace(
            self, variances=self.variances[:, chosen], flat=self.flat[chosen], freedoms=freedoms, guard=guard
        )

    def half_widths(self, gaps: np.ndarray, alpha: float, correction: Correction = ALONE) -> np.ndarray:
        """Half the width of each interval with error `alpha`, [..., pairs], for all comparisons of `correction` at
        once. NaN, no interval, for a difference other than 0 that showed no spread and is in too few numbers for a sign
        test to tell at `alpha`."""
        halves = np.sqrt(self._stretched(alpha, correction))
        untold = self.flat & (gaps != 0) & (correction.comparisons * self._sign_test > alpha)
        return np.where(untold, np.nan, np.where(self.flat, 0.0, halves))

    def p_values(self, gaps: np.ndarray, correction: Correction = ALONE) -> np.ndarray:
        """The largest error at which each interval leaves 0 out, [..., pairs], by halving log p."""
        low, high = np.full(gaps.shape, np.log(_SMALLEST_P)), np.zeros(gaps.shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            outside = gaps**2 > self._stretched(np.exp(middle), correction)
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        sign_test = min(1.0, correction.comparisons * self._sign_test)
        return np.where(self.flat, np.where(gaps == 0, 1.0, sign_test), np.exp(high))

    def _stretched(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """The squared half width: the variances times squared quantiles, and at least the guard's."""
        few = self.freedoms[0] < LEAST_POOLED
        if few.all():
            own = self._banerjee(alpha, correction)
        elif few.any():
            own = np.where(few, self._banerjee(alpha, correction), self._satterthwaite(alpha, correction))
        else:
            own = self._satterthwaite(alpha, correction)
        if self.guard is None or correction.of_recipes is None:
            return own
        return np.maximum(own, self.guard._stretched(alpha, correction.of_recipes))

    def _banerjee(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """Every variance times its own squared quantile."""
        freedoms = self.freedoms.reshape(*self.freedoms.shape, *[1] * (self.variances.ndim - self.freedoms.ndim))
        return (correction.quantiles(freedoms, alpha) ** 2 * self.variances).sum(axis=0)

    def _satterthwaite(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """The sum of the variances times the squared quantile of its degrees of freedom."""
        total, freedom = self._pooled
        return correction.quantiles(freedom, alpha) ** 2 * total

    @cached_property
    def _pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """The sum of the variances, and its degrees of freedom: those of the first where there is no variance."""
        total = self.variances.sum(axis=0)
        parts = zip(self.freedoms, self.variances, strict=True)
        spread = sum(variance**2 / freedom for freedom, variance in parts)
        return total, np.where(spread > 0, total**2 / np.where(spread > 0, spread, 1.0), self.freedoms[0])

    @property
    def _sign_test(self) -> float:
        """Two-sided p of differences that all point the same way."""
        return float(max(2.0 ** (1 - self.numbers), _SMALLEST_P))


def verdict(low: float | None, high: float | None, *, seeds: int) -> Verdict:
    """Which way a difference with this interval points; "inconclusive" where it holds 0, where there is none, and for
    fewer than `LEAST_SEEDS` seeds, whatever the interval."""
    if seeds < LEAST_SEEDS or low is None or high is None:
        return INCONCLUSIVE
    return HIGHER if low > 0 else LOWER if high < 0 else INCONCLUSIVE


def turned(which: Verdict) -> Verdict:
    """The verdict on the difference with its sign turned."""
    return {HIGHER: LOWER, LOWER: HIGHER, INCONCLUSIVE: INCONCLUSIVE}[which]
