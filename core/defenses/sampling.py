"""Which images make the batches of an epoch, where a defense needs more than a permutation."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from smoothsweep.core.errors import InputError


def shuffled_batches(n: int, batch_size: int, generator: Generator) -> list[Tensor]:
    """A permutation of 0..n-1 in batches of `batch_size` (n if that is fewer); an incomplete last one is left out."""
    size = min(batch_size, n)
    return list(torch.randperm(n, generator=generator)[: n - n % size].split(size))


def identity_batches(labels: Tensor, batch_size: int, per_class: int, generator: Generator) -> list[Tensor]:
    """Batches of batch_size / per_class classes with `per_class` images each, in the order of their classes.

    labels: int64 [N] on the CPU. The images of every class are shuffled and cut into groups; what is left over waits
    for another epoch, and a class with fewer images than a group fills it by drawing again with replacement. A batch
    takes its classes from those with most groups left, at random among equals, so that few groups find no batch.
    Source: the sampler of AlanPeng0897/Defend_MI, BiDO/ (16 classes of 4); the choice among equals is ours.
    Raises InputError if `per_class` does not divide the batch or there are too few classes for one batch.
    """
    classes, counts = labels.unique(return_counts=True)
    wanted = classes_of_batch(len(classes), batch_size, per_class)
    order = labels.argsort(stable=True)
    groups = [_groups(members, per_class, generator) for members in order.split(counts.tolist())]
    left = torch.tensor([len(group) for group in groups])
    batches = []
    while (left > 0).sum() >= wanted:
        chance = torch.rand(len(left), generator=generator, dtype=torch.float64)
        chosen = (left + chance).topk(wanted).indices.sort().values  # most groups first, equals at random
        batches.append(torch.cat([groups[c][left[c] - 1] for c in chosen.tolist()]))
        left[chosen] -= 1
    return batches


def classes_of_batch(classes: int, batch_size: int, per_class: int) -> int:
    """How many classes a batch has. Raises InputError where that is no whole number, or more than there are."""
    wanted = batch_size // per_class
    if batch_size % per_class:
        raise InputError(f"batch_size: expected a multiple of images_per_class ({per_class}), got {batch_size}")
    if classes < wanted:
        raise InputError(
            f"identity sampler: expected at least {wanted} classes for batches of {batch_size} with {per_class} images "
            f"per class, got {classes}"
        )
    return wanted


def _groups(members: Tensor, size: int, generator: Generator) -> Tensor:
    """The images of one class in shuffled groups: [groups, size], at least one."""
    n = len(members)
    if n >= size:
        return members[torch.randperm(n, generator=generator)][: n - n % size].view(-1, size)
    again = torch.randint(n, (size - n,), generator=generator)
    picks = torch.cat([torch.arange(n), again])[torch.randperm(size, generator=generator)]
    return members[picks][None]
