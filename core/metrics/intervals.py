"""Means with intervals for the tables: over seeds and over classes. Differences are judged in `comparisons`.

A trial's accuracy varies because training and attack are random (seeds) and because another choice of people
would have given another mean (classes). The same classes come back under every seed, so seeds and classes are
resampled independently of each other (crossed, as in Owen, 2007). With the two to five seeds one can afford,
plain bootstrap percentiles are much too narrow: nominal 95 % covered 68 to 87 % in simulations where seeds
matter. So the bootstrap gives the shape of the interval, and its width is stretched to what Student's t with
Satterthwaite's degrees of freedom says (88 to 99 % in the same simulations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and where it may lie. `low` and `high` are None for a single value.

    n_classes: None for metrics that are one number per seed. resampled: what the interval accounts for:
    "seeds+classes", "classes", "seeds", or "nothing". An interval over classes alone, from one seed, leaves
    the randomness of training and attack out.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    n_seeds: int
    n_classes: int | None
    resampled: str


def bootstrap_mean_interval(
    values_by_seed: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Mean over seeds and classes with a two-level bootstrap interval.

    values_by_seed: one array [classes] per seed, e.g. of per-class accuracies, the same classes in the same
    order; every class weighs the same. One seed: only classes are resampled; one class: only seeds; both: no
    interval. level: in (0, 1). resamples: bootstrap draws. seed: of the draws. bounds: clip the interval,
    e.g. to (0, 1). Values without any spread give an interval of width 0: the data hold no hint of another
    outcome. Raises ValueError for unequal numbers of classes, empty or non-finite values, or impossible
    options.
    """
    values = _as_matrix(values_by_seed)
    seeds, classes = values.shape
    mean = float(values.mean())
    low = high = None
    if seeds > 1 or classes > 1:
        below, above = _bootstrap_deviations(values - mean, level, resamples, seed)
        low, high = _clip(mean + below, mean + above, bounds)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        level=level,
        n_seeds=seeds,
        n_classes=classes,
        resampled=_what_varies(seeds, classes),
    )


def seed_mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval:
    """Mean of one number per seed [n] with Student's t interval; no interval for n = 1.

    Raises ValueError for empty or non-finite values or an impossible level.
    """
    matrix = _as_matrix([values])
    _check_level(level)
    n, mean = matrix.shape[1], float(matrix.mean())
    low = high = None
    if n > 1:
        half = float(stats.t.ppf((1 + level) / 2, n - 1) * matrix.std(ddof=1) / np.sqrt(n))
        low, high = _clip(mean - half, mean + half, bounds)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        level=level,
        n_seeds=n,
        n_classes=None,
        resampled="seeds" if n > 1 else "nothing",
    )


def _bootstrap_deviations(deviations: np.ndarray, level: float, resamples: int, seed: int) -> tuple[float, float]:
    """Distance of both ends of the interval from the mean (below <= 0 <= above), for centred values."""
    _check_level(level)
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    seeds, classes = deviations.shape
    generator = np.random.default_rng(seed)
    seed_weights = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    class_weights = generator.multinomial(classes, np.full(classes, 1 / classes), size=resamples) / classes
    means = ((seed_weights @ deviations) * class_weights).sum(axis=1)
    tail = (1 - level) / 2
    below, above = np.quantile(means, [tail, 1 - tail])
    stretch = _few_samples_stretch(deviations, means, level)
    return min(0.0, float(stretch * below)), max(0.0, float(stretch * above))


def _few_samples_stretch(deviations: np.ndarray, means: np.ndarray, level: float) -> float:
    """Factor that gives bootstrap quantiles of `means` the width of a t interval.

    Its variance is that of the seed means over S plus that of the class means over C: exact up to the
    interaction, which it counts twice, on the safe side.
    """
    parts, freedoms = [], []
    for axis, count in ((1, deviations.shape[0]), (0, deviations.shape[1])):
        if count > 1:
            parts.append(deviations.mean(axis=axis).var(ddof=1) / count)
            freedoms.append(count - 1)
    variance, spread = sum(parts), means.var()
    if variance == 0 or spread == 0:
        return 1.0
    freedom = variance**2 / sum(part**2 / free for part, free in zip(parts, freedoms, strict=True))
    upper = (1 + level) / 2
    return float(stats.t.ppf(upper, freedom) / stats.norm.ppf(upper) * np.sqrt(variance / spread))


def _what_varies(seeds: int, classes: int) -> str:
    names = [name for name, count in (("seeds", seeds), ("classes", classes)) if count > 1]
    return "+".join(names) or "nothing"


def _as_matrix(values_by_seed: Sequence[ArrayLike]) -> np.ndarray:
    rows = [np.asarray(row, dtype=np.float64) for row in values_by_seed]
    if not rows or any(row.ndim != 1 or not len(row) for row in rows):
        raise ValueError("values: expected at least one non-empty array of numbers")
    if len({len(row) for row in rows}) > 1:
        counts = ", ".join(str(len(row)) for row in rows)
        raise ValueError(f"values: expected the same classes for every seed, got {counts} of them")
    matrix = np.stack(rows)
    if not np.isfinite(matrix).all():
        raise ValueError("values: expected finite numbers, got NaN or infinity")
    return matrix


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")


def _clip(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
