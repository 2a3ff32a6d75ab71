"""What a membership attack is: the evidence that it is shown, and the score it gives an image.

docs/new-membership-attack.md shows how to add one.
Here too: which images a shadow model is trained on, a seeded part of every class and the same for all recipes of a
sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.checks import require
from smoothsweep.core.errors import InputError

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Answers to n candidate images. What was not asked for is None.

    Attributes:
        labels: Class of each image, whole numbers [n].
        phi: The target's log odds of the true class, log(p / (1 - p)), float64 [views, n]; the first view is the
            image itself.
        margin: The true class's logit minus the largest other one, float64 [n].
        shadow_phi: Log odds of the true class from shadow models, float64 [models, views, n].
        inside: Whether a shadow model was trained on the image, bool [models, n].
        right_over_views: Whether the target's label is right for shifted and mirrored copies, bool [copies, n].
        right_over_noise: Whether it is right under noise, weakest noise first, bool [levels, n].
    """

    labels: np.ndarray[Any, np.dtype[np.int64]]
    phi: Numbers | None = None
    margin: Numbers | None = None
    shadow_phi: Numbers | None = None
    inside: Flags | None = None
    right_over_views: Flags | None = None
    right_over_noise: Flags | None = None


def log_odds(logits: ArrayLike, labels: ArrayLike) -> Numbers:
    """log(p / (1 - p)) of the true class, [..., n], from logits [..., n, C] of at least two classes.

    Computed as the true logit minus the log-sum-exp of the others, which keeps its precision where p is 1 in floating
    point. Source: Carlini et al. 2022, section IV-C.
    """
    true, others = _split(logits, labels)
    from scipy.special import logsumexp  # here: reading a sweep file needs none of it

    return np.asarray(true - logsumexp(others, axis=-1), dtype=np.float64)


def margins(logits: ArrayLike, labels: ArrayLike) -> Numbers:
    """The true class's logit minus the largest of the others, [..., n]; positive where the answer is right."""
    true, others = _split(logits, labels)
    return np.asarray(true - others.max(axis=-1), dtype=np.float64)


def log_probability(phi: ArrayLike) -> Numbers:
    """log p of the true class from its log odds."""
    return -np.logaddexp(0.0, -np.asarray(phi, dtype=np.float64))


def _split(logits: ArrayLike, labels: ArrayLike) -> tuple[Numbers, Numbers]:
    """The true logits [..., n], and all with -inf in their place, [..., n, C]."""
    table, rows = np.array(logits, dtype=np.float64), np.asarray(labels)
    if table.ndim < 2 or table.shape[-1] < 2 or table.shape[-2] != len(rows):
        raise ValueError(f"logits: expected [..., {len(rows)}, at least 2 classes], got {list(table.shape)}")
    index = np.arange(len(rows)), rows
    true = table[..., index[0], index[1]]
    table[..., index[0], index[1]] = -np.inf
    return true, table


Access = Literal["labels", "scores"]
"""What the attacker sees of the target."""

LEAST_SHADOWS = 4
"""Shadow models, so that two were trained with an image and two without it."""


@dataclass(frozen=True, kw_only=True)
class LabelQueries:
    """What attacks by labels ask.

    Attributes:
        copies: Shifted copies of each image.
        levels: Levels of noise that each image is shown under.
        images: Training images, and as many others, that labels are asked of; None for all.
        seed: Seed of the images drawn, the copies and the noise.
    """

    copies: int
    levels: int
    images: int | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class MembershipAttack:
    """An attack that calls no image a member; a kind of attack overrides what it changes.

    Attributes:
        title: What a page calls it.
        cites: Its sources, as `core.citations` has them.
        since: The version of the stage `judge_membership` that first had it, or first had its present numbers: a new
            attack has the next version.
        access: What it sees of the target.
        needs: The fields of `Evidence` that it reads.
    """

    title: ClassVar[str] = "an attack"
    cites: ClassVar[tuple[str, ...]] = ()
    since: ClassVar[int] = 1
    access: ClassVar[Access] = "scores"
    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def shadows(self) -> bool:
        return "shadow_phi" in self.needs

    def missing_evidence(self, evidence: Evidence) -> tuple[str, ...]:
        """What of its evidence is not there."""
        return tuple(name for name in self.needs if getattr(evidence, name) is None)

    def scores(self, evidence: Evidence) -> Numbers:
        """How much each image looks like a member, finite float64 [n]: larger is more.

        Raises InputError, one line, where evidence is missing or a score is not finite.
        """
        if lacking := self.missing_evidence(evidence):
            raise InputError(f"membership attack {self.title}: expected {', '.join(lacking)}, got none")
        scores = self.score(evidence)
        if not bool((abs(scores) < float("inf")).all()):
            raise InputError(f"membership attack {self.title}: expected finite scores, got infinite ones or NaN")
        return scores

    def score(self, evidence: Evidence) -> Numbers:
        """As `scores`, of evidence that is there."""
        raise NotImplementedError  # every attack has its own: a test asks each row of the table


def check_shadows(count: int, where: str) -> None:
    """Raise InputError for a number of shadow models with which images would not be in as many as they are out of."""
    fits = count % 2 == 0 and (count == 0 or count >= LEAST_SHADOWS)
    require(fits, where, f"0, or an even number of at least {LEAST_SHADOWS}", count)


LEAST_OF_A_CLASS = 2
"""Images of a class, in a shadow model's part and outside it."""


def part_sizes(count: int, share: float) -> int:
    """How many of `count` images of a class the first model of a pair is trained on."""
    return int(share * count + 0.5 * (share != 0.5))  # halves of an odd number: the smaller first, the larger second


def shadow_seed(seed: int, model: int) -> int:
    """The training's seed of shadow model number `model` (from 0) under the judge's seed; no target's is as large."""
    return 1_000_000 + 1_000 * seed + model


def check_part(counts: tuple[int, ...], share: float, where: str = "membership") -> None:
    """Raise InputError where a shadow model would have fewer than two images of a class, or leave fewer than two out.

    counts: images by class, of members and others together. share: in (0, 1).
    """
    for label, count in enumerate(counts):
        size = part_sizes(count, share)
        if min(size, count - size) < LEAST_OF_A_CLASS:
            raise InputError(
                f"{where}: expected at least {LEAST_OF_A_CLASS} images of every class in a shadow model's part and "
                f"outside it, got {min(size, count - size)} of class {label} ({count} images, share {share:g})"
            )


def inside_part(labels: ArrayLike, *, model: int, share: float, seed: int) -> Flags:
    """Whether shadow model number `model` (from 0) is trained on each image, bool [n].

    labels: class of every image, whole numbers [n]. Models 2 j and 2 j + 1 take one order of a class from its two ends:
    with a share of .5 every image is in exactly one of the two, and a larger number of models keeps those of a smaller
    one. Raises InputError as `check_part`.
    """
    classes = np.asarray(labels)
    counts = np.bincount(classes)
    check_part(tuple(int(count) for count in counts if count), share)
    inside = np.zeros(len(classes), dtype=bool)
    for label, count in enumerate(counts.tolist()):
        order = np.flatnonzero(classes == label)[np.random.default_rng((seed, model // 2, label)).permutation(count)]
        size = part_sizes(count, share)
        if model % 2:
            size = count - size if share == 0.5 else size
            order = order[::-1]
        inside[order[:size]] = True
    return inside
