"""What makes members and other images differ without any memory of the target: other images, and copies.

Membership can be told only where the two sets differ in nothing but membership. The check is a classifier that sees the
images and knows neither their class nor the target: it must not be able to tell the sets apart.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.membership.evidence import Flags, Numbers
from smoothsweep.core.models.inference import fit_images

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
