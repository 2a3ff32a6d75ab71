"""Which images make a training step, for one process and for the ranks of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor

from smoothsweep.core.data.augmentation import AugmentationDraw, apply_augmentation, draw_augmentation
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import LEAST_OF_A_WORKER, TrainingRecipe

MIN_PER_RANK = LEAST_OF_A_WORKER

# What a random number is for; part of every derived seed, so that no two purposes share a stream.
_ORDER, _AUGMENTATION, _NETWORK, _ALTERATION, _PREPARATION, _KEEPING_BACK, _COMPANION = range(7)

Sampler = Callable[[Tensor, int, Generator], list[Tensor] | None]
"""Labels [N] on the CPU, batch size, generator -> the batches of an epoch (`Defense.sampler`); None: the usual ones."""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What is laid over some images of a training (the trigger of a backdoor).

    Attributes:
        chosen: bool [N] on the CPU, which images.
        lay: Pictures [n, 3, S, S] in [0, 1] -> new ones.
        before: Whether it comes before the augmentation, and is cropped and mirrored with the image, or after it.
    """

    chosen: Tensor
    lay: Callable[[Tensor], Tensor]
    before: bool = False

    def of(self, index: Tensor) -> Stamp:
        """The stamp of the images with these indices."""
        return dataclasses.replace(self, chosen=self.chosen[index.cpu()])

    def on(self, pictures: Tensor) -> Tensor:
        """The pictures, those that are chosen stamped."""
        chosen = self.chosen.to(pictures.device)[:, None, None, None]
        return torch.where(chosen, self.lay(pictures), pictures)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One rank's part of a global batch.

    Attributes:
        images: [n, 3, S, S] as in `ImageSet`.
        labels: int64 [n].
        draw: How to augment them, or None.
        weight: Factor on the mean loss of the part that turns the mean over ranks, which data-parallel training takes,
            into the mean over the whole batch.
        stamp: What is laid over some of the images, or None.
    """

    images: Tensor
    labels: Tensor
    draw: AugmentationDraw | None
    weight: float
    stamp: Stamp | None = None


def network_seed(seed: int, epoch: int, rank: int) -> int:
    """The seed of what a network draws itself (dropout) in an epoch; ranks differ, as their images do."""
    return _derive(seed, _NETWORK, epoch, rank)


def preparation_generator(seed: int) -> Generator:
    """Where a defense draws the initial weights of new layers from: another stream than the network's own."""
    return _generator(seed, _PREPARATION)


def held_out_generator(seed: int) -> Generator:
    """Where a defense draws from when it chooses the images that are not trained on."""
    return _generator(seed, _KEEPING_BACK)


def companion_generator(seed: int) -> Generator:
    """Where a defense draws what it trains beside the network from, as that is made."""
    return _generator(seed, _COMPANION)


def alteration_generator(seed: int, epoch: int, step: int, rank: int) -> Generator:
    """Where a defense draws from when it alters a rank's part of the batch of a step."""
    return _generator(seed, _ALTERATION, epoch, step, rank)


def epoch_batches(
    n: int,
    batch_size: int,
    *,
    world_size: int,
    seed: int,
    epoch: int,
    choose: Callable[[Generator], list[Tensor] | None] | None = None,
) -> list[Tensor]:
    """The global batches of an epoch: a seeded permutation of 0..n-1 in parts of int64 [batch_size] and a rest.

    choose: makes the batches from the epoch's generator instead, unless it returns None. A batch that would leave a
    rank fewer than two images is dropped. Raises InputError if none is left.
    """
    batches = choose(_generator(seed, _ORDER, epoch)) if choose else None
    if batches is None:
        batches = list(torch.randperm(n, generator=_generator(seed, _ORDER, epoch)).split(batch_size))
    min_rows = MIN_PER_RANK * world_size
    if not (kept := [batch for batch in batches if len(batch) >= min_rows]):
        raise InputError(f"training: expected a batch of at least {min_rows} of the {n} images, got none")
    return kept


def rank_slice(length: int, rank: int, world_size: int) -> slice:
    """The contiguous part of a global batch that a rank gets; sizes differ by one at most."""
    return slice(length * rank // world_size, length * (rank + 1) // world_size)


def rank_batches(
    images: Tensor,
    labels: Tensor,
    recipe: TrainingRecipe,
    *,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
    sampler: Sampler | None = None,
    stamp: Stamp | None = None,
) -> Iterator[Batch]:
    """This rank's part of every global batch of an epoch; the augmentation is drawn for the global batch."""
    choose = partial(sampler, labels.cpu(), recipe.batch_size) if sampler else None
    key = {"world_size": world_size, "seed": seed, "epoch": epoch}
    batches = epoch_batches(len(images), recipe.batch_size, **key, choose=choose)
    for step, index in enumerate(batches):
        part = rank_slice(len(index), rank, world_size)
        draw = None
        if recipe.augmentation is not None:
            generator = _generator(seed, _AUGMENTATION, epoch, step)
            draw = draw_augmentation(len(index), recipe.augmentation, generator)[part]
        mine = index[part].to(images.device)
        weight = len(mine) * world_size / len(index)
        stamp_rows = stamp.of(index[part]) if stamp is not None else None
        yield Batch(images=images[mine], labels=labels[mine], draw=draw, weight=weight, stamp=stamp_rows)


def network_input(batch: Batch, image_size: int) -> Tensor:
    """The batch's images, augmented and stamped: float32 [n, 3, image_size, image_size] in [-1, 1], channels_last.

    Float images are clipped to [-1, 1] last, after crop and flip (and within the colour steps, if there are any).
    """
    draw = batch.draw if batch.draw is not None else AugmentationDraw(n=len(batch.images))
    whole = batch.images.dtype == torch.uint8
    images = batch.images.float().div_(255) if whole else batch.images.float().add(1).div_(2)
    before, after = (batch.stamp, None) if batch.stamp and batch.stamp.before else (None, batch.stamp)
    images = before.on(images) if before else images
    images = apply_augmentation(images, draw, out_size=image_size)
    images = (after.on(images) if after else images).mul(2).sub_(1)
    images = images if whole else images.clamp_(-1, 1)
    return images.contiguous(memory_format=torch.channels_last)


def _generator(*key: int) -> Generator:
    return Generator().manual_seed(_derive(*key))


def _derive(*key: int) -> int:
    """A 63-bit seed from several integers; neighbouring keys give unrelated seeds."""
    low, high = np.random.SeedSequence(key).generate_state(2).tolist()
    return (high << 31) ^ low
