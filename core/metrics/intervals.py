"""Intervals of the numbers in tables: rates, which cannot leave [0, 1], and other numbers measured once per seed.

Differences are judged in `comparisons`. `rate_interval` is the only way to an interval of a rate. Wilson's (1927, J.
Am. Stat. Assoc. 22) is asymmetric near 0 and 1 and has a width there too. It takes a number of independent trials n and
a quantile q, which only enter as k = q^2 / n:

    (p + k / 2 +- sqrt(k p (1 - p) + k^2 / 4)) / (1 + k)

Reconstructions of one person, or of one training, are not independent. So n is the effective number of trials, as in
surveys of clusters (Korn and Graubard, 1998, Survey Methodology 24): n = p (1 - p) / V, where V is the variance of the
mean over the S seeds and C classes as crossed random effects (`crossed_effects`; mean squares MS):

    V = (max(MS_S, MS_E) + max(MS_C, MS_E) - MS_E) / (S C)

and q is Student's, with Satterthwaite's degrees of freedom: few seeds or classes tell little of V.

Where all images are hits, or nearly all, V is 0 or next to it by chance, and says nothing of how alike the images of a
class are. So n is at most what N images would be worth whose outcomes correlate within their class by

    r = 1/4 * 4 C / (4 C + h):    n <= N / (1 + (N / C - 1) r)

with h images of the rarer outcome. 1/4 is the correlation that the quickstart's verdicts have; the more images there
are of both outcomes, the more V itself tells, and the less that assumption counts. How often all of this is wrong:
docs/rates.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

LEAST_ALIKE = 0.25
"""Correlation of the outcomes of one class's images that is assumed where hits or misses are too few to show it."""

ENOUGH = 4
"""Images of the rarer outcome, per class, at which half of that assumption is left."""

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and where it may lie. `low` and `high` are None for a single value.

    Attributes:
        n_classes: None for metrics that are one number per seed.
        accounts_for: What the interval takes as random: "seeds+classes", "classes", "seeds", or "nothing". An interval
            over classes alone, from one seed, leaves the randomness of training and attack out.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    n_seeds: int
    n_classes: int | None
    accounts_for: str


def rate_interval(
    rates: ArrayLike, *, images: int | None = None, groups: int | None = None, level: float = 0.95
) -> Interval:
    """Mean of rates with Wilson's interval.

    Args:
        rates: [seeds, classes], the same classes for every seed; or [seeds] for rates whose classes are not known. All
            in [0, 1]; every seed and class weighs the same.
        images: How many yes-or-no outcomes the rates are of, all together; images that every seed meets again count
            once. None: not known, and then each rate of a class counts as one image.
        groups: Without classes, how many classes the images come from; None where those images are all there are.
        level: Confidence level, in (0, 1).

    One seed has an interval over classes alone. One seed without classes, or one seed of one class, gives none; nor do
    rates without classes that are all equal and of an unknown number of images.

    Raises ValueError for no or non-finite values, a rate outside [0, 1], fewer images than rates of classes, or an
    impossible level.
    """
    table = _checked(rates, level)
    if table.min() < 0 or table.max() > 1:
        raise ValueError(f"rates: expected numbers in [0, 1], got {table.min():g} to {table.max():g}")
    by_class = table.ndim == 2
    table = table if by_class else table[:, None]
    images = table.size if images is None and by_class else images
    if images is not None and images < (table.size if by_class else 1):
        raise ValueError(f"images: expected at least {table.size if by_class else 1}, got {images}")
    seeds, classes = table.shape
    mean, low, high = float(table.mean()), None, None
    tightness = _tightness(table, images, classes if by_class else groups, level) if table.size > 1 else None
    if tightness is not None:
        low, high = _wilson(mean, tightness)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        level=level,
        n_seeds=seeds,
        n_classes=classes if by_class else None,
        accounts_for=_what_varies(seeds, classes),
    )


def seed_mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval:
    """Mean of one number per seed [n] that is no rate, with Student's t interval; no interval for n = 1.

    bounds: clip the interval, e.g. to (0, infinity). Raises ValueError for empty or non-finite values or an impossible
    level.
    """
    numbers = _checked(values, level).ravel()
    n, mean, low, high = len(numbers), float(numbers.mean()), None, None
    if n > 1:
        half = float(_student(n - 1, level) * numbers.std(ddof=1) / np.sqrt(n))
        low, high = _around(mean, half, bounds)
    return Interval(
        mean=mean, low=low, high=high, level=level, n_seeds=n, n_classes=None, accounts_for=_what_varies(n, 1)
    )


def crossed_mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval:
    """Mean of numbers [seeds, classes] that are no rates of outcomes, such as an AUC of each class, with Student's t.

    The variance is that of crossed random effects, as of rates. bounds: clip the interval. One seed: an interval over
    classes alone; a single number has none. Raises ValueError for empty or non-finite values or an impossible level.
    """
    table = np.atleast_2d(_checked(values, level))
    seeds, classes = table.shape
    mean, low, high = float(table.mean()), None, None
    if table.size > 1:
        variance, freedom = _crossed_variance(table)
        half = float(_student(freedom, level) * np.sqrt(variance))
        low, high = _around(mean, half, bounds)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        level=level,
        n_seeds=seeds,
        n_classes=classes,
        accounts_for=_what_varies(seeds, classes),
    )


def _around(mean: float, half: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of an interval, cut at the bounds."""
    low, high = (mean - half, mean + half) if bounds is None else np.clip((mean - half, mean + half), *bounds)
    return float(low), float(high)


def independent_rate_interval(hits: float, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of the rate of `hits` among independent trials. Raises ValueError for an impossible count."""
    if trials < 1 or not 0 <= hits <= trials or not 0 < level < 1:
        raise ValueError(f"rate: expected hits among trials, a level in (0, 1), got {hits} of {trials}, {level}")
    return _wilson(hits / trials, float(special.ndtri((1 - level) / 2) ** 2 / trials))


def _wilson(rate: float, tightness: float) -> tuple[float, float]:
    """Wilson's interval of a rate. tightness: the squared quantile over the number of independent trials."""
    centre = (rate + tightness / 2) / (1 + tightness)
    half = float(np.sqrt(tightness * rate * (1 - rate) + tightness**2 / 4)) / (1 + tightness)
    return (0.0 if rate == 0 else max(0.0, centre - half)), (1.0 if rate == 1 else min(1.0, centre + half))


def _tightness(table: np.ndarray, images: int | None, groups: int | None, level: float) -> float | None:
    """The squared quantile over the effective number of trials; None where it is unknown."""
    classes, mean = table.shape[1], float(table.mean())
    variance, freedom = _crossed_variance(table)
    most = None if images is None else _worth(mean, images, groups)
    # Among classes, their number limits what a quantile may claim; a set of images that is all there is has no such.
    quantile = _student(classes - 1, level) if classes > 1 else -float(special.ndtri((1 - level) / 2))
    at_least = 0.0 if most is None else quantile**2 / most
    spread = mean * (1 - mean)
    seen = _student(freedom, level) ** 2 * variance / spread if spread > 0 else 0.0
    return max(seen, at_least) or None


def _crossed_variance(table: np.ndarray) -> tuple[float, float]:
    """Variance of the mean of [seeds, classes], more than one value, and its degrees of freedom."""
    seeds, classes = table.shape
    if min(seeds, classes) == 1:
        return float(table.var(ddof=1) / table.size), table.size - 1
    of_seeds, of_classes = table.mean(axis=1), table.mean(axis=0)
    residual = table - of_seeds[:, None] - of_classes[None, :] + table.mean()
    rest = float((residual**2).sum()) / ((seeds - 1) * (classes - 1))
    squares = classes * float(of_seeds.var(ddof=1)), seeds * float(of_classes.var(ddof=1))
    total = max(squares[0], rest) + max(squares[1], rest) - rest
    if total <= 0:
        return 0.0, table.size - 1
    # Satterthwaite (1946). A mean square no larger than the residual's adds nothing, and so nothing uncertain.
    parts = [square if square > (1 + _ROUNDING) * rest else 0.0 for square in squares]
    parts.append(total - sum(parts))
    freedoms = (seeds - 1, classes - 1, (seeds - 1) * (classes - 1))
    freedom = total**2 / sum(part**2 / free for part, free in zip(parts, freedoms, strict=True))
    return total / table.size, max(1.0, freedom)


def _worth(rate: float, images: int, groups: int | None) -> float:
    """How many independent images these are worth at most, in so many classes; all of them without classes."""
    if groups is None or groups >= images:
        return images
    rarer = images * min(rate, 1 - rate)
    alike = LEAST_ALIKE * ENOUGH * groups / (ENOUGH * groups + rarer)
    return images / (1 + (images / groups - 1) * alike)


def _student(freedom: float, level: float) -> float:
    return -float(special.stdtrit(freedom, (1 - level) / 2))


def _what_varies(seeds: int, classes: int) -> str:
    names = [name for name, count in (("seeds", seeds), ("classes", classes)) if count > 1]
    return "+".join(names) or "nothing"


def _checked(values: ArrayLike, level: float) -> np.ndarray:
    """Check values and convert them to float64, [n] or [seeds, classes]. Raises ValueError."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    try:
        table = np.asarray(values, dtype=np.float64)
    except ValueError:
        counts = ", ".join(str(np.size(row)) for row in cast("Sequence[ArrayLike]", values))
        raise ValueError(f"values: expected the same classes for every seed, got {counts} of them") from None
    if table.ndim not in (1, 2) or not table.size:
        raise ValueError(f"values: expected numbers [seeds] or [seeds, classes], got shape {list(table.shape)}")
    if not np.isfinite(table).all():
        raise ValueError("values: expected finite numbers, got NaN or infinity")
    return table
