"""How far orders and votes agree: Fleiss' kappa of people, Kendall's tau-b of a cheap proxy and the full attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from smoothsweep.core.errors import InputError


def fleiss_kappa(votes: ArrayLike) -> float | None:
    """Fleiss' kappa for nominal categories: 1 is full agreement, 0 that of chance, below 0 less than that.

    votes: whole numbers [things, categories], how many judged each thing to be of each category. Things may have
    unequal numbers of votes (Fleiss, Nee and Landis, 1979); those with fewer than two say nothing of agreement and are
    left out. None where nothing is left, or where all votes are for one category: chance then agrees fully too.
    Source: J. L. Fleiss, Measuring nominal scale agreement among many raters, Psychological Bulletin 76 (1971).
    Raises ValueError for anything but a table of counts.
    """
    counts = np.asarray(votes, dtype=np.float64)
    if counts.ndim != 2 or (counts < 0).any() or (counts != np.round(counts)).any():
        raise ValueError("votes: expected whole numbers from 0, one row per thing and one column per category")
    counts = counts[counts.sum(axis=1) >= 2]
    if not len(counts):
        return None
    answers = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (answers * (answers - 1))
    by_chance = np.square(counts.sum(axis=0) / counts.sum()).sum()
    if np.isclose(by_chance, 1.0):
        return None
    return float((agreeing.mean() - by_chance) / (1 - by_chance))


LEAST_FOR_INTERVAL = 5
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class RankAgreement:
    """How well a cheap attack, the proxy, orders recipes as the full attack does.

    Attributes:
        kendall: Kendall's tau-b in [-1, 1], NaN if either side gives all recipes one value.
        low, high: Its 95 % interval, None where it is NaN or there are fewer than `LEAST_FOR_INTERVAL` recipes.
        k: How many recipes count as the best.
        top_overlap: Share of the best k by the full attack that the proxy's best k hold, in [0, 1]; by chance it is k /
            the number of recipes.
        verdict: "agree" if the interval lies above 0, "disagree" if below, else "inconclusive".
    """

    kendall: float
    low: float | None
    high: float | None
    k: int
    top_overlap: float
    verdict: str


def rank_agreement(proxy: ArrayLike, full: ArrayLike, *, k: int = 3, resamples: int = 2000, seed: int) -> RankAgreement:
    """How alike the leak [recipes] by a proxy and by the full attack rank the same recipes; small is best in both.

    k: how many count as the best, 1 to n. The intervals are bootstrap percentiles over recipes, widened where
    they are narrower than the large-sample interval on Fisher's z scale (Fieller, Hartley and Pearson, 1957): resamples
    of rankings that agree perfectly agree perfectly too, be they ever so few. They say what another choice of recipes
    would give, not what other seeds would; noise in either audit pulls the values towards 0. Raises InputError for
    different lengths, fewer than 2 recipes, or values that are not finite.
    """
    cheap, dear = np.asarray(proxy, dtype=np.float64), np.asarray(full, dtype=np.float64)
    _check(cheap, dear, k)
    draws = np.random.default_rng(seed).integers(len(cheap), size=(resamples, len(cheap)))
    kendall = float(_tau_b(cheap[None], dear[None])[0])
    low, high, verdict = None, None, "inconclusive"
    if not np.isnan(kendall) and len(cheap) >= LEAST_FOR_INTERVAL:
        low, high = _interval(kendall, _tau_b(cheap[draws], dear[draws]), len(cheap))
        verdict = "agree" if low > 0 else "disagree" if high < 0 else verdict
    overlap = top_overlap(cheap, dear, k=k)
    return RankAgreement(kendall=kendall, low=low, high=high, k=k, top_overlap=overlap, verdict=verdict)


def top_overlap(proxy: ArrayLike, full: ArrayLike, *, k: int) -> float:
    """Share of the k smallest by `full` [n] among the k smallest by `proxy` [n], in [0, 1].

    Values tied across the k-th place share the places that are left equally, so that the order of recipes does not
    matter and equal rankings give 1. Raises InputError as `rank_agreement`.
    """
    cheap, dear = np.asarray(proxy, dtype=np.float64), np.asarray(full, dtype=np.float64)
    _check(cheap, dear, k)
    return float(np.minimum(_places(cheap, k), _places(dear, k)).sum() / k)


def _interval(value: float, resampled: np.ndarray, n: int) -> tuple[float, float]:
    tail = (1 - _LEVEL) / 2
    ends = np.nanquantile(resampled, [tail, 1 - tail]) if not np.isnan(resampled).all() else [value, value]
    half = -special.ndtri(tail) * np.sqrt(0.437 / (n - 4))  # Fieller's variance
    half_step = 2 / (n * (n - 1))  # values between the steps of the coefficient do not occur
    low = np.tanh(np.arctanh(max(value - half_step, half_step - 1)) - half)
    high = np.tanh(np.arctanh(min(value + half_step, 1 - half_step)) + half)
    return float(min(ends[0], low, value)), float(max(ends[1], high, value))


def _tau_b(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of every row [rows, n]: concordant minus discordant pairs over the geometric mean of the pairs
    that are not tied in x and in y. NaN where all are tied."""
    i, j = np.triu_indices(x.shape[1], 1)
    total, in_x, in_y = (np.zeros(len(x)) for _ in range(3))
    for start in range(0, len(i), 256):  # all pairs at once would need resamples x recipes squared
        left, right = i[start : start + 256], j[start : start + 256]
        sign_x, sign_y = np.sign(x[:, left] - x[:, right]), np.sign(y[:, left] - y[:, right])
        total += (sign_x * sign_y).sum(axis=1)
        in_x += (sign_x != 0).sum(axis=1)
        in_y += (sign_y != 0).sum(axis=1)
    scale = np.sqrt(in_x * in_y)
    return np.divide(total, scale, out=np.full(len(x), np.nan), where=scale > 0)


def _places(values: np.ndarray, k: int) -> np.ndarray:
    """How much of a place among the k smallest each value [n] holds, in [0, 1], sum k."""
    edge = np.sort(values)[k - 1]
    below, tied = values < edge, values == edge
    return below + tied * (k - below.sum()) / tied.sum()


def _check(cheap: np.ndarray, dear: np.ndarray, k: int) -> None:
    if cheap.ndim != 1 or cheap.shape != dear.shape or len(cheap) < 2:
        raise InputError(
            "rank agreement: expected one value per recipe from either attack, at least 2, "
            f"got shapes {list(cheap.shape)} and {list(dear.shape)}"
        )
    if not (np.isfinite(cheap).all() and np.isfinite(dear).all()):
        raise InputError("rank agreement: expected finite values, got NaN or infinity")
    if not 1 <= k <= len(cheap):
        raise InputError(f"rank agreement: k: expected 1 to {len(cheap)}, got {k}")
