"""Quantiles for several comparisons with one reference: the largest of k correlated t-variables, in absolute value.

Recipes that are compared with the same baseline share its noise, so their differences correlate by one half. Dunnett
(1955, J. Am. Stat. Assoc. 50, 1096-1121) takes that into account, where Bonferroni's correction does not:

    T_i = (Z_0 + Z_i) / sqrt(2) / U,    U = chi_f / sqrt(f),    q such that P(max |T_i| > q) = alpha

The probability is an expectation over the shared normal Z_0 (Gauss-Hermite) and over U (a grid of its logarithm). It is
tabulated once for every k, and interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import hermite_e

_NORMALS, _MASSES = hermite_e.hermegauss(61)
_MASSES = _MASSES / _MASSES.sum()
_INVERSES = np.linspace(0.0, 1.0, 41)  # of the degrees of freedom, from infinite to 1
_LOG_ALPHAS = np.linspace(np.log(1e-14), np.log(0.9999), 200)
_LOG_QUANTILES = np.linspace(np.log(1e-3), np.log(1e6), 1000)
# Of U, on the grid of the quantiles, so that q U is on it too and nothing need be interpolated.
_STEPS = np.arange(-770, 146)
_LOG_SCALES = _STEPS * (_LOG_QUANTILES[1] - _LOG_QUANTILES[0])


@dataclass(frozen=True, kw_only=True)
class Bonferroni:
    """Two-sided quantiles of Student's t that hold for `comparisons` statements at once, whatever their correlation."""

    comparisons: int = 1

    @property
    def of_recipes(self) -> None:
        """None: the comparisons have no reference that would share its noise with all of them."""
        return None

    def quantiles(self, freedom: np.ndarray | float, alpha: np.ndarray | float) -> np.ndarray:
        """Quantiles for degrees of freedom `freedom` and family-wise error `alpha`, broadcast against each other."""
        from scipy import special  # half a second of imports, for every command that reads a sweep file

        return -special.stdtrit(freedom, np.asarray(alpha) / (2 * self.comparisons))


@dataclass(frozen=True, kw_only=True)
class Dunnett:
    """Two-sided quantiles that hold for `comparisons` statements at once, each pair of them correlated by one half.

    recipes: how many are in the comparisons, the reference too; 0 where no guard is asked for.
    """

    comparisons: int = 1
    recipes: int = 0

    @property
    def of_recipes(self) -> Dunnett | None:
        """The correction of the guard (`verdicts.Errors`), which makes one statement of every recipe; None for none."""
        return Dunnett(comparisons=self.recipes) if self.recipes else None

    def quantiles(self, freedom: np.ndarray | float, alpha: np.ndarray | float) -> np.ndarray:
        """Quantiles for degrees of freedom `freedom` (at least 1) and family-wise error `alpha`, broadcast."""
        if self.comparisons == 1:
            return Bonferroni().quantiles(freedom, alpha)
        table = _table(self.comparisons)
        inverse = 1 / np.asarray(freedom, dtype=np.float64)
        row = np.minimum(np.maximum(inverse, 0), 1) * (len(_INVERSES) - 1)
        step = _LOG_ALPHAS[1] - _LOG_ALPHAS[0]
        column = np.minimum(np.maximum((np.log(alpha) - _LOG_ALPHAS[0]) / step, 0), len(_LOG_ALPHAS) - 1)
        above, left = (
            np.minimum(row.astype(int), len(_INVERSES) - 2),
            np.minimum(column.astype(int), table.shape[1] - 2),
        )
        down, right = row - above, column - left
        upper = (1 - right) * table[above, left] + right * table[above, left + 1]
        lower = (1 - right) * table[above + 1, left] + right * table[above + 1, left + 1]
        return np.exp((1 - down) * upper + down * lower)


Correction = Bonferroni | Dunnett


@lru_cache(maxsize=64)
def _table(comparisons: int) -> np.ndarray:
    """Logarithms of the quantiles, [degrees of freedom, alphas]."""
    normal = _tail_of_normals(np.exp(_LOG_QUANTILES), comparisons)
    rows = [normal, *_tails_of_students(normal, 1 / _INVERSES[1:]).T]
    # np.interp wants rising abscissae, and tails fall.
    return np.stack([np.interp(-_LOG_ALPHAS, -np.log(np.maximum(row, 1e-300)), _LOG_QUANTILES) for row in rows])


def _tail_of_normals(quantiles: np.ndarray, comparisons: int) -> np.ndarray:
    """P(max |(Z_0 + Z_i) / sqrt(2)| > q), [quantiles]."""
    from scipy import special

    reach = np.sqrt(2) * quantiles[:, None]
    outside = special.ndtr(_NORMALS - reach) + special.ndtr(-_NORMALS - reach)
    largest = -np.expm1(comparisons * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    return largest @ _MASSES


def _tails_of_students(normal: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
    """Tail probabilities of t-variables, [quantiles, freedoms]: the normal tail at q U, averaged over U."""
    from scipy import special

    log_density = freedoms * (_LOG_SCALES[:, None] - np.exp(2 * _LOG_SCALES[:, None]) / 2)
    masses = np.exp(log_density - special.logsumexp(log_density, axis=0))
    at = np.arange(len(normal))[:, None] + _STEPS
    tails = np.where(at < 0, 1.0, np.where(at < len(normal), normal[np.clip(at, 0, len(normal) - 1)], 0.0))
    return tails @ masses
