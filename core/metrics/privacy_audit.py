"""Lower bounds of epsilon from one training run with canaries, beside the epsilon that an accountant states.

m canaries are each inserted by a fair coin of their own. The auditor scores every one and guesses "in" for the largest
scores, "out" for the smallest. Two bounds at the same level:

* `one_run_epsilon`: valid for any (epsilon, delta) mechanism (Steinke, Nasr and Jagielski 2023, theorem 5.2). Loose
  where the noise is that of a Gaussian.
* `gaussian_mu`: of a Gaussian mechanism, mu = Phi^-1(TPR) - Phi^-1(FPR) with Clopper-Pearson bounds of both rates (Dong
  et al. 2022; Nasr et al. 2023, section 4). It is the tight one for DP-SGD, of which canaries that no other gradient
  touches see one Gaussian each; f-DP makes it comparable with a stated noise (Mahloujifar, Melis and Chaudhuri 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

MOST = 100.0
"""Epsilon above which nothing is looked for."""


@dataclass(frozen=True, kw_only=True)
class EpsilonAudit:
    """Lower bounds at a level, each by itself.

    Attributes:
        epsilon: Bound of epsilon from the number of right guesses, for any mechanism.
        mu: The mu of a Gaussian mechanism.
        canaries: How many were scored.
    """

    epsilon: float
    mu: float
    canaries: int

    def gaussian_epsilon(self, delta: float) -> float:
        """The epsilon at `delta` of a Gaussian mechanism with `mu`."""
        return epsilon_of_mu(self.mu, delta)


def audit_epsilon(
    scores: ArrayLike, inserted: ArrayLike, *, delta: float, guesses: int | None = None, level: float = 0.95
) -> EpsilonAudit:
    """What one run shows of its epsilon.

    Args:
        scores: Scores of canaries [m], larger where they look inserted.
        inserted: bool [m], by fair coins.
        guesses: How many are made in all, half of them "in"; a third of the canaries by default.

    It must not be chosen by the scores. Raises ValueError for fewer than 10 canaries, or canaries that are all in or
    all out.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(inserted, bool)
    if len(values) < 10 or truth.all() or not truth.any():
        got = f"{len(values)}, {int(truth.sum())} of them in"
        raise ValueError(f"canaries: expected at least 10, some in and some out, got {got}")
    half = max(1, (len(values) // 3 if guesses is None else guesses) // 2)
    order = np.argsort(values, kind="stable")
    right = int((~truth[order[:half]]).sum() + truth[order[-half:]].sum())
    return EpsilonAudit(
        epsilon=one_run_epsilon(right, 2 * half, canaries=len(values), delta=delta, level=level),
        mu=gaussian_mu(values[truth], values[~truth], level=level),
        canaries=len(values),
    )


def one_run_epsilon(right: int, guesses: int, *, canaries: int, delta: float, level: float = 0.95) -> float:
    """The largest epsilon that so many right guesses refute, 0 where they refute none."""

    def excess(epsilon: float) -> float:
        return p_value(right, guesses, canaries=canaries, epsilon=epsilon, delta=delta) - (1 - level)

    if excess(0.0) > 0:
        return 0.0
    return MOST if excess(MOST) < 0 else float(brentq(excess, 0.0, MOST))


def p_value(right: int, guesses: int, *, canaries: int, epsilon: float, delta: float) -> float:
    """How probable so many right guesses are at most, under (epsilon, delta)-differential privacy (theorem 5.2)."""
    rate = 1 / (1 + np.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, rate))
    mass = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, rate)) if right else np.zeros(1)
    worst = float((mass / np.arange(1, len(mass) + 1)).max())
    return min(1.0, tail + 2 * canaries * delta * worst)


def gaussian_mu(inside: ArrayLike, outside: ArrayLike, *, level: float = 0.95) -> float:
    """A lower bound of mu at the threshold halfway between the two means, 0 at least.

    That threshold depends on the scores through two means alone; each rate is bounded at half of the error.
    """
    inner, outer = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    threshold = (inner.mean() + outer.mean()) / 2
    right, wrong = int((inner > threshold).sum()), int((outer > threshold).sum())
    error = (1 - level) / 2
    low = float(beta.ppf(error, right, len(inner) - right + 1)) if right else 0.0
    high = float(beta.ppf(1 - error, wrong + 1, len(outer) - wrong)) if wrong < len(outer) else 1.0
    return max(0.0, float(norm.ppf(low) - norm.ppf(high))) if low > 0 and high < 1 else 0.0


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon at `delta` of a mu-Gaussian mechanism (Dong et al. 2022, corollary 2.13)."""

    def excess(epsilon: float) -> float:
        spent = norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return float(spent - delta)

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, max(1.0, mu * mu + 12 * mu)))
