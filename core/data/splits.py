"""Which images train and which test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.errors import InputError

# What a random number is for; part of every seed, so that split and subset do not share a stream.
_SPLIT, _SUBSET = range(2)


def paper_split(n: int, *, seed: int = 42) -> tuple[Tensor, Tensor]:
    """Training and test indices, int64, of the published 90/10 split of n images (protocol `paper`).

    The first int(0.9 n) entries of a shuffle of 0..n-1 by NumPy's legacy generator train, the others test, in
    shuffled order. Not stratified: a class may be missing from the test part. Source: Plug-and-Play-Attacks,
    datasets/facescrub.py and datasets/celeba.py. Raises InputError if either part would be empty.
    """
    order = paper_shuffle(n, seed=seed)
    cut = int(0.9 * n)
    if not 0 < cut < n:
        raise InputError(f"split: expected at least 2 images, got {n}")
    return order[:cut], order[cut:]


def paper_shuffle(n: int, *, seed: int = 42) -> Tensor:
    """0..n-1 as NumPy's legacy global generator shuffles it after `seed`, int64 [n].

    The published trainer shuffles its training images once more with it before it takes a subset.
    """
    order = np.arange(n)
    np.random.RandomState(seed).shuffle(order)
    return torch.from_numpy(order)


def frequency_ranks(identities: Sequence[int | str], classes: int) -> Tensor:
    """Labels by frequency, int64 [n]: 0 for the identity with most images, -1 for those beyond `classes`.

    Equally frequent identities keep the order in which they first appear. This is how the published CelebA
    targets choose and number their 1,000 classes. Raises InputError if there are fewer identities.
    """
    counts: dict[int | str, int] = {}
    for identity in identities:
        counts[identity] = counts.get(identity, 0) + 1
    if len(counts) < classes:
        raise InputError(f"classes: expected at most the {len(counts)} identities there are, got {classes}")
    ranked = sorted(counts, key=lambda identity: -counts[identity])  # stable
    rank = {identity: i for i, identity in enumerate(ranked[:classes])}
    return torch.tensor([rank.get(identity, -1) for identity in identities], dtype=torch.int64)


def largest_classes(labels: Tensor, count: int, *, num_classes: int) -> Tensor:
    """The `count` classes with most of these labels (int64 [n]), largest first; of equal ones the lower label, int64.

    Raises InputError if there are fewer.
    """
    if not 0 < count <= num_classes:
        raise InputError(f"largest_classes: expected 1 to {num_classes} classes, got {count}")
    sizes = torch.bincount(labels, minlength=num_classes)
    return torch.sort(sizes, descending=True, stable=True).indices[:count]


def stratified_split(labels: Tensor, *, test_fraction: float, seed: int, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Training and test indices, int64, ascending; every class gives the same share of its images to the test.

    The share is rounded, but at least one image of a class trains and one tests. A class is split by (seed,
    label) alone: other classes do not change it. Raises InputError naming a class with fewer than two images.
    """
    test = []
    for label, members in _members(labels, names):
        if len(members) < 2:
            raise InputError(f"split: expected at least 2 images of class {names[label]}, got {len(members)}")
        count = min(max(round(test_fraction * len(members)), 1), len(members) - 1)
        test.append(members[_shuffle(len(members), seed, _SPLIT, label)[:count]])
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    is_test[torch.cat(test)] = True
    return torch.nonzero(~is_test).squeeze(1), torch.nonzero(is_test).squeeze(1)


def samples_per_class(labels: Tensor, count: int, *, seed: int, names: Sequence[str]) -> Tensor:
    """Indices, int64, ascending, of exactly `count` images of every class.

    Nested: with the same seed a smaller count gives a subset of a larger one, so that curves over the number
    of images add images and replace none. Raises InputError naming a class that has too few.
    """
    chosen = []
    for label, members in _members(labels, names):
        if len(members) < count:
            raise InputError(
                f"samples_per_class: expected at least {count} training images of class {names[label]}, "
                f"got {len(members)}"
            )
        chosen.append(members[_shuffle(len(members), seed, _SUBSET, label)[:count]])
    return torch.cat(chosen).sort().values


def _members(labels: Tensor, names: Sequence[str]) -> list[tuple[int, Tensor]]:
    """Every class with the indices of its images in order, empty classes too."""
    return [(label, torch.nonzero(labels == label).squeeze(1)) for label in range(len(names))]


def _shuffle(n: int, *key: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(key).permutation(n))
