"""How exposed single people are: rates shrunk towards the mean, with intervals, and how sure the first ranks are.

With few images per person and seed, the highest rates tend to be too high, and the same attack under another seed puts
others first. So shares are read as in a beta-binomial model with seeds as repeats:

    rate of a person          theta_i ~ Beta(mean mu, correlation rho)
    rate under a seed     p_is | theta_i ~ Beta(mean theta_i, correlation tau)
    hits of m_is images   k_is | p_is ~ Binomial(m_is, p_is)

where Beta(mean m, correlation r) has the parameters m (1 - r) / r and (1 - m) (1 - r) / r: two images of a person
agree beyond the mean by r. What is reported is theta_i, which holds for further runs of the attack under other seeds.

mu, rho and tau are estimated from all people together (empirical Bayes). With ten people they are uncertain, so their
likelihood is averaged over a grid (as Morris, 1983, J. Am. Stat. Assoc. 78, asks for) under a flat prior of mu and rho,
and 19 (1 - tau)^18 of tau, with a mean of .05. Several seeds soon overrule it; with one seed, which tells nothing of
other seeds, it stands for what repeats of the quickstart show (.04). That a person is among the `top` most exposed is
the probability that fewer than `top` others have a larger theta. It is computed, not drawn: given their distributions
people are independent, so the number of others above is a sum of independent yes-or-no variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

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
    top: int
    level: float


def exposures(shares: ArrayLike, images: ArrayLike | None = None, *, top: int = TOP, level: float = 0.95) -> Exposures:
    """Estimate how exposed each person is from the shares of hits.

    Args:
        shares: [seeds, people], in [0, 1].
        images: How many each share is of, [seeds, people] or [people]; None: not known, and then each counts as one
            image, which claims least.
        top: How many people count as the most exposed, at least 1.
        level: Confidence level, in (0, 1).

    Raises ValueError for no or impossible shares, fewer than one image, or impossible options.
    """
    table, counts = _checked(shares, images, top, level)
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
        top=top,
        level=level,
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


def _checked(shares: ArrayLike, images: ArrayLike | None, top: int, level: float) -> tuple[np.ndarray, np.ndarray]:
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
    if top < 1 or not 0 < level < 1:
        raise ValueError(f"expected a top of at least 1 and a level in (0, 1), got {top} and {level}")
    return table, counts
