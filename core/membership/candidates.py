"""Candidate images of membership attacks, what a model answers to them, and every attack's numbers.

A model is asked about the images, their mirror images, shifted copies and noisy copies. The stage of a sweep and the
audit in memory both measure by these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import Evidence, Flags, LabelQueries, Numbers, log_odds, margins
from smoothsweep.core.membership.measuring import Measured, measure, roc_auc
from smoothsweep.core.models.inference import Network, evaluate_logits, fit_images

SHIFT = 1 / 8
"""The farthest shift of a copy, of the image's side, as random crops of a training shift it."""

NOISE = (0.02, 0.5)
"""Standard deviations of the weakest and the strongest noise, of images in [-1, 1]."""

_BATCH = 256


def scores_of(
    model: Network, images: Tensor, labels: Tensor, *, image_size: int, device: str
) -> tuple[Numbers, Numbers]:
    """Log odds of the true class for each image and its mirror image, [2, n], and the margin of the image, [n]."""
    plain, mirrored = (
        evaluate_logits(model, each, image_size=image_size, device=device).double().numpy()
        for each in (images, images.flip(-1))
    )
    true = labels.numpy()
    return log_odds([plain, mirrored], true), margins(plain, true)


def right_over_views(
    model: Network, images: Tensor, labels: Tensor, *, copies: int, image_size: int, device: str, generator: Generator
) -> Flags:
    """Whether the label is right for each copy: shifted by up to an eighth of the side, every second one mirrored.

    bool [copies, n]. All images are shifted alike, so that a copy differs between images in nothing but the image.
    """
    farthest = max(1, int(SHIFT * image_size))
    is_right = []
    for number in range(copies):
        across, down = (int(torch.randint(-farthest, farthest + 1, (), generator=generator)) for _ in range(2))

        def moved(chunk: Tensor, across: int = across, down: int = down, number: int = number) -> Tensor:
            chunk = chunk.flip(-1) if number % 2 else chunk
            side = chunk.shape[-1]
            padded = pad(chunk, (farthest,) * 4, mode="replicate")
            return padded[..., farthest + down : farthest + down + side, farthest + across : farthest + across + side]

        is_right.append(_right(model, images, labels, moved, image_size=image_size, device=device))
    return torch.stack(is_right).numpy()


def right_over_noise(
    model: Network, images: Tensor, labels: Tensor, *, levels: int, image_size: int, device: str, generator: Generator
) -> Flags:
    """Whether the label is right under Gaussian noise of each level, bool [levels, n]; levels grow by a factor."""
    low, high = NOISE
    is_right = []
    for number in range(levels):
        strength = low * (high / low) ** (number / max(1, levels - 1))

        def noisy(chunk: Tensor, strength: float = strength) -> Tensor:
            return chunk + strength * torch.randn(chunk.shape, generator=generator).to(chunk)

        is_right.append(_right(model, images, labels, noisy, image_size=image_size, device=device))
    return torch.stack(is_right).numpy()


def _right(
    model: Network,
    images: Tensor,
    labels: Tensor,
    change: Callable[[Tensor], Tensor],
    *,
    image_size: int,
    device: str,
) -> Tensor:
    """Whether the network's label is right for changed images, bool [n]."""
    answers = []
    for chunk in images.split(_BATCH):
        pictures = change(fit_images(chunk, image_size)).clamp(-1, 1)
        answers.append(evaluate_logits(model, pictures, image_size=image_size, device=device).argmax(dim=1))
    return torch.cat(answers) == labels


# What makes members and other images differ without any memory of the target: other images, and copies.
#
# Membership can be told only where the two sets differ in nothing but membership. The check is a classifier that sees
# the
# images and knows neither their class nor the target: it must not be able to tell the sets apart.


SIDE = 12
"""Side in pixels at which images are compared."""

COPY = 2 / 255
"""Largest difference of two pixels of copies, at that side, of images in [0, 1]: what saving as JPEG changes."""

_FOLDS, _RIDGE = 5, 1e-2
_CHUNK = 512


def thumbnails(images: Tensor) -> Numbers:
    """Images as in `ImageSet` -> float64 [n, 3 * SIDE * SIDE] in [0, 1]."""
    parts = [fit_images(chunk, SIDE).add(1).div(2).clamp(0, 1).flatten(1) for chunk in images.split(_CHUNK)]
    return torch.cat(parts).double().numpy()


def scores_without_target(small: Numbers, member: Flags, *, seed: int = 0) -> Numbers:
    """Scores [n] by which a classifier that knows the images alone tells members from others, each out of its fold.

    small: `thumbnails`. Ridge regression on the pixels, their squares and the image's mean, spread and sharpness.
    """
    features = _features(small)
    fold = np.empty(len(small), dtype=int)
    draw = np.random.default_rng(seed)
    for kind in (True, False):
        rows = draw.permutation(np.flatnonzero(member == kind))
        fold[rows] = np.arange(len(rows)) % _FOLDS
    scores = np.empty(len(small))
    for number in range(_FOLDS):
        train, test = fold != number, fold == number
        mean, spread = features[train].mean(axis=0), features[train].std(axis=0) + 1e-9
        x, y = (features[train] - mean) / spread, member[train] - member[train].mean()
        gram = x.T @ x / len(x) + _RIDGE * np.trace(x.T @ x / len(x)) * np.eye(x.shape[1]) / x.shape[1] * 10
        scores[test] = (features[test] - mean) / spread @ np.linalg.solve(gram, x.T @ y / len(x))
    return scores - np.array([scores[fold == number].mean() for number in range(_FOLDS)])[fold]


def copies(small: Numbers, labels: np.ndarray, member: Flags) -> Flags:
    """Which other images are copies of a member of their class, bool [n]: they are no non-members."""
    is_copy = np.zeros(len(small), dtype=bool)
    for label in np.unique(labels):
        inner, outer = (np.flatnonzero((labels == label) & (member == kind)) for kind in (True, False))
        for row in outer:
            gap = np.abs(small[inner] - small[row]).max(axis=1, initial=0)
            is_copy[row] = bool(len(inner)) and bool(gap.min() <= COPY)
    return is_copy


def _features(small: Numbers) -> Numbers:
    square = small.reshape(len(small), 3, SIDE, SIDE)
    sharp = np.abs(np.diff(square, axis=-1)).mean(axis=(1, 2, 3))
    facts = np.stack([small.mean(axis=1), small.std(axis=1), sharp, sharp**2], axis=1)
    return np.concatenate([small, facts, square.mean(axis=(2, 3)), square.std(axis=(2, 3))], axis=1)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Training images and others of the same people.

    Attributes:
        images: All of them, training images first.
        member: Whether an image is a training image, bool [n].
        kept: Whether it counts, bool [n]: other images that are copies of training images are no non-members.
        shift: AUC of a classifier that tells the two kinds apart by their pixels and never asks the model.
    """

    images: ImageSet
    member: Flags
    kept: Flags
    shift: float

    @property
    def copies(self) -> int:
        """Other images that are copies of training images."""
        return int((~self.kept).sum())

    def queried(self, asking: LabelQueries) -> Flags:
        """Which images labels are asked of, bool [n]: all that count, or as many members as others, drawn by a seed."""
        if asking.images is None:
            return self.kept.copy()
        chosen, draw = np.zeros(len(self.member), dtype=bool), np.random.default_rng((asking.seed, 1))
        for kind in (self.member, ~self.member):
            rows = np.flatnonzero(kind & self.kept)
            chosen[draw.permutation(rows)[: asking.images]] = True
        return chosen

    def measure(self, evidence: Evidence, queried: Flags) -> Measured:
        """Every attack that the evidence of all images allows, of the images that count. asked: as of `answers_to`."""
        parts: Mapping[str, Any] = {
            name: getattr(evidence, name)[..., self.kept]
            for name in ("labels", "phi", "margin", "shadow_phi", "inside")
            if getattr(evidence, name) is not None
        }
        return measure(replace(evidence, **parts), self.member[self.kept], queried=queried[self.kept])


def candidates_of(images: ImageSet, member: Flags, *, seed: int, where: str, others: str) -> Candidates:
    """The candidates. where, others: what to call their place and the images that are no members in an error.

    Raises InputError where all others are copies of training images.
    """
    small = thumbnails(images.images)
    kept = ~copies(small, images.labels.numpy(), member)
    if not (kept & ~member).any():
        raise InputError(f"{where}: expected {others} that are no training images, got copies alone")
    scores = scores_without_target(small[kept], member[kept], seed=seed)
    shift = roc_auc(scores[member[kept]], scores[~member[kept]])
    return Candidates(images=images, member=member, kept=kept, shift=shift)


def answers_to(
    model: Network, candidates: Candidates, asking: LabelQueries, *, image_size: int, device: str, scores: bool
) -> tuple[Evidence, Flags]:
    """What the model answers, and which images labels were asked of, bool [n].

    image_size: side in pixels that the model sees. scores: whether it gives them; they are asked of all images.
    """
    images, queried = candidates.images, candidates.queried(asking)
    draw, few = torch.Generator().manual_seed(asking.seed), images.subset(torch.from_numpy(queried))
    options: dict[str, Any] = {"image_size": image_size, "device": device}
    views = right_over_views(model, few.images, few.labels, copies=asking.copies, generator=draw, **options)
    noise = right_over_noise(model, few.images, few.labels, levels=asking.levels, generator=draw, **options)
    phi, margin = scores_of(model, images.images, images.labels, **options) if scores else (None, None)
    labels = images.labels.numpy()
    evidence = Evidence(labels=labels, phi=phi, margin=margin, right_over_views=views, right_over_noise=noise)
    return evidence, queried


def with_shadows(evidence: Evidence, shadows: Sequence[tuple[Numbers, Flags]]) -> Evidence:
    """The evidence with that of shadow models; as it is without any.

    shadows: of each model its log odds of the true class [2, n], and which images it was trained on [n].
    """
    if not shadows:
        return evidence
    phi, inside = (np.stack(part) for part in zip(*shadows, strict=True))
    return replace(evidence, shadow_phi=phi, inside=inside)
