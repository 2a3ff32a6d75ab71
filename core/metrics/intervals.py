"""Intervals of the numbers in tables: rates, which cannot leave [0, 1], and other numbers measured once per seed.

Differences are judged in `comparisons`. `rate_interval` is the only way to an interval of a rate. Wilson's (1927, J.
Am. Stat. Assoc. 22) is asymmetric near 0 and 1 and has a width there too. It takes a number of independent trials n and
a quantile q, which only enter as k = q^2 / n:

    (p + k / 2 +- sqrt(k p (1 - p) + k^2 / 4)) / (1 + k)

Reconstructions of one person, or of one training, are not independent. So n is the effective number of trials, as in
surveys of clusters (Korn and Graubard, 1998, Survey Methodology 24): n = p (1 - p) / V, where V is the variance of the
mean over the S seeds and C classes as crossed random effects (as in `verdicts`; mean squares MS):

    V = (max(MS_S, MS_E) + max(MS_C, MS_E) - MS_E) / (S C)

and q is Student's, with Satterthwaite's degrees of freedom: few seeds or classes tell little of V.

Where all images are hits, or nearly all, V is 0 or next to it by chance, and says nothing of how alike the images of a
class are. So n is at most what N images would be worth whose outcomes correlate within their class by

    r = 1/4 * 4 C / (4 C + h):    n <= N / (1 + (N / C - 1) r)

with h images of the rarer outcome. 1/4 is the correlation that the quickstart's verdicts have; the more images there
are of both outcomes, the more V itself tells, and the less that assumption counts. How often all of this is wrong:
docs/rates.md.

How exposed single people are (`exposures`). With few images per person and seed, the highest rates tend to be too high,
and the same attack under another seed puts others first. So shares are read as in a beta-binomial model with seeds as
repeats:

    rate of a person          theta_i ~ Beta(mean mu, correlation rho)
    rate under a seed     p_is | theta_i ~ Beta(mean theta_i, correlation tau)
    hits of m_is images   k_is | p_is ~ Binomial(m_is, p_is)

where Beta(mean m, correlation r) has the parameters m (1 - r) / r and (1 - m) (1 - r) / r: two images of a person agree
beyond the mean by r. What is reported is theta_i, which holds for further runs of the attack under other seeds.

mu, rho and tau are estimated from all people together (empirical Bayes). With ten people they are uncertain, so their
likelihood is averaged over a grid (as Morris, 1983, J. Am. Stat. Assoc. 78, asks for) under a flat prior of mu and rho,
and 19 (1 - tau)^18 of tau, with a mean of .05. Several seeds soon overrule it; with one seed, which tells nothing of
other seeds, it stands for what repeats of the quickstart show (.04). That a person is among the `top` most exposed is
the probability that fewer than `top` others have a larger theta. It is computed, not drawn: given their distributions
people are independent, so the number of others above is a sum of independent yes-or-no variables.

Whether a judge can tell a leak (`check_judge`): its accuracy on real photographs is corrected for chance as Cohen's
kappa (1960, Educ. Psychol. Meas. 20): (accuracy - chance) / (1 - chance).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from smoothsweep.core.text import NBSP

LEAST_ALIKE = 0.25
"""Correlation of the outcomes of one class's images that is assumed where hits or misses are too few to show it."""

ENOUGH = 4
"""Images of the rarer outcome, per class, at which half of that assumption is left."""

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and where it may lie. `low` and `high` are None for a single value.

    What is random is what there are several of: seeds, classes, or both. An interval over classes alone, from one seed,
    leaves the randomness of training and attack out.
    """

    mean: float
    low: float | None
    high: float | None


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

    Raises ValueError for no or non-finite values, a rate outside [0, 1], or fewer images than rates of classes.
    """
    table = _checked(rates)
    if table.min() < 0 or table.max() > 1:
        raise ValueError(f"rates: expected numbers in [0, 1], got {table.min():g} to {table.max():g}")
    by_class = table.ndim == 2
    table = table if by_class else table[:, None]
    images = table.size if images is None and by_class else images
    if images is not None and images < (table.size if by_class else 1):
        raise ValueError(f"images: expected at least {table.size if by_class else 1}, got {images}")
    groups = table.shape[1] if by_class else groups
    mean, low, high = float(table.mean()), None, None
    tightness = _tightness(table, images, groups, level) if table.size > 1 else None
    if tightness is not None:
        low, high = _wilson(mean, tightness)
    return Interval(mean=mean, low=low, high=high)


def seed_mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval:
    """Mean of one number per seed [n] that is no rate, with Student's t interval; no interval for n = 1.

    bounds: clip the interval, e.g. to (0, infinity). Raises ValueError for empty or non-finite values.
    """
    numbers = _checked(values).ravel()
    n, mean, low, high = len(numbers), float(numbers.mean()), None, None
    if n > 1:
        half = float(_student(n - 1, level) * numbers.std(ddof=1) / np.sqrt(n))
        low, high = _around(mean, half, bounds)
    return Interval(mean=mean, low=low, high=high)


def crossed_mean_interval(
    values: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval:
    """Mean of numbers [seeds, classes] that are no rates of outcomes, such as an AUC of each class, with Student's t.

    The variance is that of crossed random effects, as of rates. bounds: clip the interval. One seed: an interval over
    classes alone; a single number has none. Raises ValueError for empty or non-finite values.
    """
    table = np.atleast_2d(_checked(values))
    mean, low, high = float(table.mean()), None, None
    if table.size > 1:
        variance, freedom = _crossed_variance(table)
        half = float(_student(freedom, level) * np.sqrt(variance))
        low, high = _around(mean, half, bounds)
    return Interval(mean=mean, low=low, high=high)


def _around(mean: float, half: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of an interval, cut at the bounds."""
    low, high = (mean - half, mean + half) if bounds is None else np.clip((mean - half, mean + half), *bounds)
    return float(low), float(high)


def independent_rate_interval(hits: float, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of the rate of `hits` among independent trials. Raises ValueError for an impossible count."""
    if trials < 1 or not 0 <= hits <= trials:
        raise ValueError(f"rate: expected hits among trials, got {hits} of {trials}")
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


def _checked(values: ArrayLike) -> np.ndarray:
    """Check values and convert them to float64, [n] or [seeds, classes]. Raises ValueError."""
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


TOP = 5
"""How many of the most exposed a rank is about."""

_CELLS = 128  # of theta, of equal width where a rate's spread is about the same everywhere (arcsine of its root)
_EDGES = np.sin(np.pi / 2 * np.linspace(0, 1, _CELLS + 1)) ** 2
_MIDDLES = np.sin(np.pi / 2 * (np.arange(_CELLS) + 0.5) / _CELLS) ** 2
_ROOTS = (np.arange(20) + 0.5) / 20  # of rho: fine near 0, where most of it happens
_TAUS = (np.arange(10) + 0.5) ** 2 / 100
_TAU_PRIOR = (np.arange(10) + 0.5) * (1 - _TAUS) ** 18
_LEAST_WIDTH, _REACH, _FINE = 0.02, 4.5, 17  # of the grid of mu's logit around where the data put it
_NODES, _MASSES = np.polynomial.legendre.leggauss(6)
_CHUNK = 48

Likelihoods = list[tuple[np.ndarray, np.ndarray]]
"""What `_likelihood` gives for every tau."""


@dataclass(frozen=True, kw_only=True)
class Exposures:
    """The exposure of each person; all fields are [people].

    Attributes:
        share: Observed mean over the seeds.
        rate: Share shrunk towards the mean of all people.
        low, high: Interval that holds the rate with probability `level`.
        among_top: Probability that the rate is among the `top` largest.
    """

    share: np.ndarray
    rate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    among_top: np.ndarray


def exposures(shares: ArrayLike, images: ArrayLike | None = None, *, top: int = TOP, level: float = 0.95) -> Exposures:
    """Estimate how exposed each person is from the shares of hits.

    Args:
        shares: [seeds, people], in [0, 1].
        images: How many each share is of, [seeds, people] or [people]; None: not known, and then each counts as one
            image, which claims least.
        top: How many people count as the most exposed, at least 1.
        level: Confidence level, in (0, 1).

    Raises ValueError for no or impossible shares, or fewer than one image.
    """
    table, counts = _checked_shares(shares, images)
    hits = table * counts
    # People with the same hits are alike, whichever seeds they had them under.
    order = np.argsort(hits + 1e-3 * counts, axis=0, kind="stable")
    sorted_rows = np.concatenate([np.take_along_axis(array, order, axis=0) for array in (hits, counts)]).T
    kinds, kind = np.unique(sorted_rows, axis=0, return_inverse=True)
    kind, seeds = kind.ravel(), len(table)
    posterior = _posterior(kinds[:, :seeds], kinds[:, seeds:], np.bincount(kind))
    low, high = (_quantiles(posterior, tail)[kind] for tail in ((1 - level) / 2, (1 + level) / 2))
    return Exposures(
        share=table.mean(axis=0),
        rate=(posterior @ _MIDDLES)[kind],
        low=low,
        high=high,
        among_top=_among_top(posterior[kind], top),
    )


def _posterior(hits: np.ndarray, images: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Probability of every cell of theta, [kinds, cells]. people: how many there are of each kind."""
    likelihoods = [_likelihood(hits, images, tau) for tau in _TAUS]
    coarse = np.linspace(-8, 8, 33)
    weights = _weights(coarse, _priors(tuple(coarse)), likelihoods, people).sum(axis=(0, 2))
    centre = float(coarse @ weights)
    width = max(_LEAST_WIDTH, float(np.sqrt(weights @ (coarse - centre) ** 2)))
    fine = centre + width * np.linspace(-_REACH, _REACH, _FINE)
    priors = _priors(tuple(fine))
    return _averaged(priors, likelihoods, _weights(fine, priors, likelihoods, people))


def _likelihood(hits: np.ndarray, images: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """Likelihood of the hits [kinds, seeds] given theta, [kinds, cells], scaled to a maximum of 1 for each kind; and
    the logarithms of the maxima, [kinds]."""
    size = (1 - tau) / tau
    yes, no = size * _MIDDLES, size * (1 - _MIDDLES)
    counts, place = np.unique(np.stack([hits.ravel(), images.ravel()], axis=1), axis=0, return_inverse=True)
    k, m = counts.T[..., None]
    of_counts = special.betaln(k + yes, m - k + no) - special.betaln(yes, no)
    logs = of_counts[place.ravel()].reshape(*hits.shape, _CELLS).sum(axis=1)
    return np.exp(logs - logs.max(axis=1, keepdims=True)), logs.max(axis=1)


@lru_cache(maxsize=4)
def _priors(logits: tuple[float, ...]) -> np.ndarray:
    """Probability of every cell of theta given mu and rho, [logits, rhos, cells]."""
    mean, size = special.expit(np.array(logits))[:, None, None], ((1 - _ROOTS**2) / _ROOTS**2)[None, :, None]
    return np.diff(special.betainc(size * mean, size * (1 - mean), _EDGES), axis=-1)


def _weights(logits: np.ndarray, priors: np.ndarray, likelihoods: Likelihoods, people: np.ndarray) -> np.ndarray:
    """Probability of every tau, mu and rho, [taus, logits, rhos]."""
    mean = special.expit(logits)
    before = np.log(mean * (1 - mean))[:, None] + np.log(_ROOTS)[None, :]  # flat in mu and in rho
    log_weights = []
    for (scaled, largest), prior in zip(likelihoods, _TAU_PRIOR, strict=True):
        of_kinds = np.log(np.maximum(priors @ scaled.T, 1e-300)) + largest
        log_weights.append(before + np.log(prior) + of_kinds @ people)
    logs = np.stack(log_weights)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _averaged(priors: np.ndarray, likelihoods: Likelihoods, weights: np.ndarray) -> np.ndarray:
    """The posterior of theta [kinds, cells], averaged over tau, mu and rho."""
    priors = priors.reshape(-1, _CELLS)
    total = np.zeros((len(likelihoods[0][0]), _CELLS))
    for (scaled, _), weight in zip(likelihoods, weights, strict=True):
        evidence = np.maximum(scaled @ priors.T, 1e-300)
        total += scaled * ((weight.ravel() / evidence) @ priors)
    return total / total.sum(axis=1, keepdims=True)


def _quantiles(posterior: np.ndarray, tail: float) -> np.ndarray:
    """Quantiles of the posterior [kinds], interpolated within a cell evenly in the arcsine."""
    grid = np.linspace(0, 1, _CELLS + 1)
    reached = np.concatenate([np.zeros((len(posterior), 1)), np.cumsum(posterior, axis=1)], axis=1)
    return np.array([np.sin(np.pi / 2 * np.interp(tail, row, grid)) ** 2 for row in reached])


def _among_top(posterior: np.ndarray, top: int) -> np.ndarray:
    """Probability that fewer than `top` others lie above, [people], for distributions [people, cells]."""
    people = len(posterior)
    if people <= top:
        return np.ones(people)
    above = 1 - np.cumsum(posterior, axis=1)
    probability = np.zeros(people)
    # Where so many are expected above, no one has fewer than `top` above, to a probability below 1e-12.
    first = int(np.argmax(above.sum(axis=0) < 8 * top + 60))
    for start in range(first, _CELLS, _CHUNK // len(_NODES)):
        cells = slice(start, start + _CHUNK // len(_NODES))
        places = (1 - _NODES) / 2  # how much of the own cell lies above
        over = (above[:, cells, None] + posterior[:, cells, None] * places).reshape(people, -1)
        few = _fewer_others(np.clip(over, 0, 1), top).reshape(people, -1, len(_NODES))
        probability += (posterior[:, cells, None] * few * _MASSES / 2).sum(axis=(1, 2))
    # Where nearly all mass lies in one cell, the nodes are too few; all together are `top` people.
    return np.clip(probability * (top / probability.sum()), 0, 1)


def _fewer_others(over: np.ndarray, top: int) -> np.ndarray:
    """Probability for each person and node, [people, nodes], that fewer than `top` others are above, by counting
    those before and those after the person."""
    people, nodes = over.shape
    before = np.zeros((people, top, nodes))
    count = np.zeros((top, nodes))
    count[0] = 1
    for at in range(people):
        before[at] = count
        count = _one_more(count, over[at])
    probabilities, count = np.zeros_like(over), np.zeros((top, nodes))
    count[0] = 1
    for at in reversed(range(people)):
        at_most = np.cumsum(count, axis=0)[::-1]  # of those after, at most top - 1, ..., 0
        probabilities[at] = (before[at] * at_most).sum(axis=0)
        count = _one_more(count, over[at])
    return probabilities


def _one_more(count: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Probabilities of counting 0, 1, ..., top - 1, with one more person, who is above with probability `over`."""
    more = count * (1 - over)
    more[1:] += count[:-1] * over
    return more


def _checked_shares(shares: ArrayLike, images: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Shares and images, [seeds, people] each."""
    table = np.asarray(shares, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"shares: expected numbers [seeds, people], got shape {list(table.shape)}")
    if not ((table >= 0) & (table <= 1)).all():
        raise ValueError("shares: expected numbers in [0, 1]")
    counts = np.ones(table.shape) if images is None else np.asarray(images, dtype=np.float64)
    counts = np.broadcast_to(counts, table.shape)
    if not (counts >= 1).all() or not np.isfinite(counts).all():
        raise ValueError("images: expected at least one for each share")
    return table, counts


FAR = 0.2
"""Chance-corrected accuracy that the whole interval must exceed; Landis and Koch (1977) call less "slight"."""
HALF = 0.5
"""Fraction of the targets' accuracy below which a judge knows too little of the people that they know."""
GOOD = 0.8
"""Accuracy from which on a leak is shown without the judge's own accuracy beside it."""


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """A judge's answers to real photographs.

    Attributes:
        real: Fraction that it is right about; low and high: Wilson's interval, `real` itself where the number of
            photographs is not known.
        chance: Fraction that a judge who knows nothing is right about; None where not known.
        targets: The targets' test accuracy; None where it does not compare.
        reach: Fraction of photographs, projected into the prior, that it is right about; None where not measured.
        why: Why no leak can be told by it; empty where one can.
    """

    real: float
    low: float
    high: float
    chance: float | None
    targets: float | None
    reach: float | None
    why: Literal["", "chance", "targets", "reach"]

    @property
    def is_good(self) -> bool:
        """Whether its word needs no figure beside it."""
        return not self.why and self.real >= GOOD

    @property
    def words(self) -> str:
        """What it is right about, and why no leak can be told by it, without a full stop."""
        because = {
            "": "",
            "chance": f", and chance is {_percent(self.chance)}",
            "targets": f", less than half as often as the targets ({_percent(self.targets)})",
            "reach": f", and of {_percent(self.reach)} as the prior draws them, which is more",
        }[self.why]
        ends = "" if self.low == self.high else f" [{100 * self.low:.0f}, {100 * self.high:.0f}]"
        return f"it is right about {_percent(self.real)}{ends} of real photographs{because}"


def check_judge(
    real: float,
    *,
    images: int | None,
    chance: float | None,
    targets: float | None = None,
    reach: tuple[float, int] | None = None,
    level: float = 0.95,
) -> JudgeCheck:
    """Whether a judge's interval on real photographs clears chance by far, and contradicts nothing else that is known.

    images: how many photographs; reach: fraction and number of projected ones. All fractions lie in [0, 1].
    """
    low, high = photographs_interval(real, images, level)
    why: Literal["", "chance", "targets", "reach"] = ""
    if chance is not None and (low - chance) / (1 - chance) <= FAR:
        why = "chance"
    elif targets is not None and real < HALF * targets:
        why = "targets"
    elif reach is not None and photographs_interval(*reach, level)[0] > high:
        why = "reach"
    reached = None if reach is None else reach[0]
    return JudgeCheck(real=real, low=low, high=high, chance=chance, targets=targets, reach=reached, why=why)


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f}{NBSP}%"


def photographs_interval(rate: float, images: int | None, level: float) -> tuple[float, float]:
    """Wilson's interval of the share of photographs that a judge is right about; of an unknown number the share
    itself. To the last bit as scipy.stats has it, which takes half a second to import."""
    if not images:
        return rate, rate
    hits, squared = round(rate * images), special.ndtri((1 + level) / 2) ** 2
    share, whole = hits / images, 2 * (images + squared)
    half = np.sqrt(squared) / whole * np.sqrt(4 * images * share * (1 - share) + squared)
    centre = (2 * images * share + squared) / whole
    return (0.0 if hits == 0 else float(centre - half)), (1.0 if hits == images else float(centre + half))
