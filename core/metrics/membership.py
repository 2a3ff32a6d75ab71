"""How well scores tell members from other images: AUC, true positives at few false ones, per person, calibrated or not.

All take scores of members [m] and of other images [n], larger for members, finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata

RESAMPLES = 400
"""Bootstrap resamples of persons."""


@dataclass(frozen=True, kw_only=True)
class Bootstrapped:
    """A value and its percentile interval over resampled persons."""

    value: float
    low: float
    high: float


def roc_auc(members: ArrayLike, others: ArrayLike) -> float:
    """The probability that a member scores higher than another image; ties count half. Raises ValueError for none."""
    inner, outer = _checked(members, others)
    ranks = rankdata(np.concatenate([inner, outer]))
    wins = ranks[: len(inner)].sum() - len(inner) * (len(inner) + 1) / 2
    return float(wins / (len(inner) * len(outer)))


def auc_by_person(scores: ArrayLike, member: ArrayLike, labels: ArrayLike) -> dict[int, float]:
    """Class -> AUC among its own images alone, for classes with images of both kinds."""
    values, inside, classes = np.asarray(scores, np.float64), np.asarray(member, bool), np.asarray(labels)
    by_person = {}
    for label in np.unique(classes):
        of_person = classes == label
        if (of_person & inside).any() and (of_person & ~inside).any():
            by_person[int(label)] = roc_auc(values[of_person & inside], values[of_person & ~inside])
    return by_person


def smallest_rate(others: int) -> float:
    """The smallest false positive rate above 0 that so many other images can show."""
    return 1 / others


def threshold_at(others: ArrayLike, rate: float) -> float | None:
    """The threshold that at most a fraction `rate` of other images exceeds; None where that is less than one image."""
    outer = np.sort(np.asarray(others, np.float64))[::-1]
    allowed = int(rate * len(outer) + 1e-9)
    if allowed < 1:
        return None
    return float(outer[allowed]) if allowed < len(outer) else float("-inf")


def tpr_at(members: ArrayLike, others: ArrayLike, rate: float) -> float | None:
    """The fraction of members above `threshold_at`; None where there are fewer than 1 / rate other images."""
    inner, outer = _checked(members, others)
    threshold = threshold_at(outer, rate)
    return None if threshold is None else float((inner > threshold).mean())


def held_out_rate(others: ArrayLike, labels: ArrayLike, rate: float, *, seed: int = 0) -> float | None:
    """The false positive rate that a threshold stated for `rate` has on images that it was not chosen by.

    The other images [n] of every class are halved by `seed`; each half is held against the threshold of the other.
    None as in `tpr_at`, for half of the images.
    """
    values, classes = np.asarray(others, np.float64), np.asarray(labels)
    first, draw = np.zeros(len(values), bool), np.random.default_rng(seed)
    for label in np.unique(classes):
        of_person = draw.permutation(np.flatnonzero(classes == label))
        cut = len(of_person) // 2 + (len(of_person) % 2) * int(draw.integers(2))
        first[of_person[:cut]] = True
    wrong = 0
    for chosen in (first, ~first):
        threshold = threshold_at(values[chosen], rate) if chosen.any() else None
        if threshold is None:
            return None
        wrong += int((values[~chosen] > threshold).sum())
    return wrong / len(values)


def person_auc(scores: ArrayLike, member: ArrayLike, labels: ArrayLike, *, seed: int = 0) -> tuple[float, int] | None:
    """How sure an attacker with several photographs of a person can be that they were used: (AUC, photographs).

    Scores of a person's images are averaged in groups of as many images as every person has of either kind, drawn by
    `seed`; groups of members stand against groups of others, over all persons. None where a person lacks a kind.
    """
    values, inside, classes = np.asarray(scores, np.float64), np.asarray(member, bool), np.asarray(labels)
    people = np.unique(classes)
    rows = [[np.flatnonzero((classes == person) & (inside == kind)) for kind in (True, False)] for person in people]
    size = min((len(own) for pair in rows for own in pair), default=0)
    if size < 1:
        return None
    draw, groups = np.random.default_rng(seed), ([], [])
    for pair in rows:
        for kind, own in enumerate(pair):
            order = draw.permutation(own)
            groups[kind].extend(values[order[i : i + size]].mean() for i in range(0, len(order) - size + 1, size))
    return roc_auc(*groups), size


def over_persons(
    measure: Callable[[np.ndarray, np.ndarray], float | None],
    scores: ArrayLike,
    member: ArrayLike,
    labels: ArrayLike,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrapped | None:
    """A measure of (members, others) with its interval over persons, who are resampled with all of their images.

    scores: [n], or [n, k] for a measure of k scores for each image. None where the measure is.
    """
    values, inside, classes = np.asarray(scores, np.float64), np.asarray(member, bool), np.asarray(labels)
    value = measure(values[inside], values[~inside])
    if value is None:
        return None
    people = [np.flatnonzero(classes == person) for person in np.unique(classes)]
    draw, samples = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        rows = np.concatenate([people[person] for person in draw.integers(len(people), size=len(people))])
        again = values[rows], inside[rows]
        if again[1].all() or not again[1].any():
            continue
        resampled = measure(again[0][again[1]], again[0][~again[1]])
        if resampled is not None:
            samples.append(resampled)
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2]) if samples else (value, value)
    return Bootstrapped(value=value, low=float(min(low, value)), high=float(max(high, value)))


def chance_spread(members: int, others: int) -> float:
    """Standard deviation of the AUC of scores that know nothing (Mann and Whitney 1947)."""
    return float(np.sqrt((members + others + 1) / (12 * members * others)))


def differs(auc: float, members: int, others: int, *, level: float = 0.999) -> bool:
    """Whether an AUC is further from .5 than scores that know nothing would be, at this level."""
    return abs(auc - 0.5) > float(norm.isf((1 - level) / 2)) * chance_spread(members, others)


def _checked(members: ArrayLike, others: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    inner, outer = np.asarray(members, np.float64), np.asarray(others, np.float64)
    if inner.ndim != 1 or outer.ndim != 1 or not len(inner) or not len(outer):
        raise ValueError(f"scores: expected members [m] and others [n], got {list(inner.shape)}, {list(outer.shape)}")
    if not (np.isfinite(inner).all() and np.isfinite(outer).all()):
        raise ValueError("scores: expected finite numbers, got NaN or infinity")
    return inner, outer
