"""Which images a shadow model is trained on: a seeded part of every class, the same for all recipes of a sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.evidence import Flags

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
