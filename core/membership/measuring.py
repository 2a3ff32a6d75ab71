"""Run every membership attack for which there is evidence, and measure how well its scores tell members from others.

Scores of members [m] and of other images [n] are finite, and larger for members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from smoothsweep.core.membership.base import Evidence, Flags, Numbers
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, title_of
from smoothsweep.core.metrics.intervals import crossed_mean_interval

RESAMPLES = 400
"""Bootstrap resamples of persons."""


def roc_auc(members: ArrayLike, others: ArrayLike) -> float:
    """The probability that a member scores higher than another image; ties count half. Raises ValueError for none."""
    from scipy.stats import rankdata  # half a second, for every reader of results

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
) -> tuple[float, float, float] | None:
    """A measure of (members, others) with the ends of its percentile interval over persons, who are resampled with all
    of their images.

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
    return value, float(min(low, value)), float(max(high, value))


def is_chance(auc: float, members: int, others: int, *, level: float = 0.999) -> bool:
    """Whether an AUC is no further from .5 than scores that know nothing would be, at this level (Mann and Whitney,
    1947)."""
    spread = float(np.sqrt((members + others + 1) / (12 * members * others)))
    return abs(auc - 0.5) <= -float(special.ndtri((1 - level) / 2)) * spread


def _checked(members: ArrayLike, others: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    inner, outer = np.asarray(members, np.float64), np.asarray(others, np.float64)
    if inner.ndim != 1 or outer.ndim != 1 or not len(inner) or not len(outer):
        raise ValueError(f"scores: expected members [m] and others [n], got {list(inner.shape)}, {list(outer.shape)}")
    if not (np.isfinite(inner).all() and np.isfinite(outer).all()):
        raise ValueError("scores: expected finite numbers, got NaN or infinity")
    return inner, outer


RATES = {"fpr1": 0.01, "fpr01": 0.001}
"""Name of a false positive rate -> the rate."""

STATED = 0.05
"""The rate at which calibration is measured: of fewer false positives hundreds of images show too few."""

WITH_SHADOWS, WITHOUT = "rmia", "margin"
"""The attack whose numbers stand for all that see scores: fixed beforehand, not chosen by the result."""

BY_LABELS = "label_views"
"""The attack whose numbers stand for those that see labels alone."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Scores [n] of every attack that could be made, and the images that they are of.

    Attributes:
        scores: Attack -> [n], NaN for images that it was not asked.
        member: [n].
        labels: [n].
    """

    scores: Mapping[str, Numbers]
    member: Flags
    labels: np.ndarray

    @property
    def leading(self) -> str:
        """The attack whose numbers stand for all; of a target that shows labels alone, one that needs no more."""
        return next(name for name in (WITH_SHADOWS, WITHOUT, BY_LABELS) if name in self.scores)

    def split(self, attack: str) -> tuple[Numbers, Numbers]:
        """Scores of members, and of other images."""
        known = np.isfinite(self.scores[attack])
        return self.scores[attack][known & self.member], self.scores[attack][known & ~self.member]

    def metrics(self) -> dict[str, float | None]:
        """`membership_*` numbers; None for attacks that were not made, and rates that so few images cannot show."""
        metrics: dict[str, float | None] = {}
        for name in MEMBERSHIP_ATTACKS:
            pair = self.split(name) if name in self.scores else None
            metrics[f"membership_{name}_auc"] = roc_auc(*pair) if pair else None
            metrics[f"membership_{name}_tpr_fpr1"] = tpr_at(*pair, RATES["fpr1"]) if pair else None
        return metrics | self._leading()

    def _leading(self) -> dict[str, float | None]:
        members, others = self.split(self.leading)
        scores = self.scores[self.leading]
        known = np.isfinite(scores)
        person = person_auc(scores[known], self.member[known], self.labels[known])
        within = auc_by_person(scores[known], self.member[known], self.labels[known])
        labels = self.split(BY_LABELS) if BY_LABELS in self.scores else None
        return {
            "membership_auc": roc_auc(members, others),
            **{f"membership_tpr_{name}": tpr_at(members, others, rate) for name, rate in RATES.items()},
            "membership_auc_labels": roc_auc(*labels) if labels else None,
            "membership_auc_persons": person[0] if person else None,
            "membership_auc_within": float(np.mean(list(within.values()))) if within else None,
            "membership_fpr_held": held_out_rate(others, self.labels[known & ~self.member], STATED),
            "membership_least_fpr": 1 / len(others),
        }

    def by_class(self, attacks: tuple[str, ...] = (WITH_SHADOWS, WITHOUT, BY_LABELS)) -> dict[str, dict[int, float]]:
        """Attack -> class -> AUC among the class's own images, of those that were made."""
        known = {name: np.isfinite(self.scores[name]) for name in attacks if name in self.scores}
        return {
            name: auc_by_person(self.scores[name][rows], self.member[rows], self.labels[rows])
            for name, rows in known.items()
        }


def measure(evidence: Evidence, member: Flags, *, queried: Flags) -> Measured:
    """Every attack of the table that has its evidence.

    asked: images that label attacks asked about, bool [n], whose columns the evidence of labels has.
    """
    scores: dict[str, Numbers] = {}
    few = replace(evidence, labels=evidence.labels[queried], phi=None, margin=None, shadow_phi=None, inside=None)
    for name, kind in MEMBERSHIP_ATTACKS.items():
        attack = kind()
        if attack.access == "labels" and not attack.missing_evidence(few):
            scores[name] = np.full(len(member), np.nan)
            scores[name][queried] = attack.scores(few)
        elif attack.access != "labels" and not attack.missing_evidence(evidence):
            scores[name] = attack.scores(evidence)
    return Measured(scores=scores, member=member, labels=evidence.labels)


SEES = "scores"


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """How well one attack tells training images from others.

    Attributes:
        attack: Its name, as results have it.
        auc: AUC within persons; low and high are its 95 % interval over persons (NaN for one).
    """

    attack: str
    auc: float
    low: float
    high: float

    @property
    def title(self) -> str:
        return title_of(self.attack)

    @property
    def words(self) -> str:
        """`0.74 [0.70, 0.78]`; without interval for one person."""
        return f"{self.auc:.2f}" + ("" if self.low != self.low else f" [{self.low:.2f}, {self.high:.2f}]")


@dataclass(frozen=True, kw_only=True)
class WithinPersons(Attacked):
    """One attack within persons: its AUC is the mean over them of the AUC among the images of each.

    Attributes:
        found: Name of a false positive rate -> fraction of training images found at it; None where so few other images
            do not show that rate.
    """

    found: Mapping[str, float | None]

    @property
    def has_shadows(self) -> bool:
        return "shadow_phi" in MEMBERSHIP_ATTACKS[self.attack].needs


def measure_within_persons(measured: Measured) -> tuple[tuple[WithinPersons, ...], int]:
    """Attacks that see scores, the strongest first, and over how many persons; nothing and 0 without such attacks."""
    names = tuple(name for name in measured.scores if MEMBERSHIP_ATTACKS[name].access == SEES)
    by_class, results = measured.by_class(names), []
    for name in names:
        of_persons = np.array([list(by_class[name].values())])
        interval = crossed_mean_interval(of_persons, bounds=(0.0, 1.0))
        low, high = (float("nan") if end is None else end for end in (interval.low, interval.high))
        found = {rate: tpr_at(*measured.split(name), value) for rate, value in RATES.items()}
        results.append(WithinPersons(attack=name, auc=interval.mean, low=low, high=high, found=found))
    return tuple(sorted(results, key=lambda result: -result.auc)), len(by_class[names[0]]) if names else 0
