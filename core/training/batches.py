"""Which images make a step, for one process and for the ranks of several; which are held out; how they are fed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Generator as Iterating
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor

from smoothsweep.core.data.augmentation import AugmentationDraw, apply_augmentation, draw_augmentation
from smoothsweep.core.data.images import ImageSet, resize, resize_uint8
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.models.recipe import LEAST_OF_A_WORKER, TrainingRecipe

MIN_PER_RANK = LEAST_OF_A_WORKER

PURPOSES = ("order", "augmentation", "network", "alteration", "preparation", "held out", "companion")
"""What a random number is for; the place is part of every derived seed, so that no two purposes share a stream: the
order of images, their augmentation, what the network draws itself (dropout; ranks differ, as their images do), what a
defense draws when it alters a rank's part of a batch, for the first weights of new layers, when it chooses the images
that are not trained on, and for what it trains beside the network."""

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


def training_seed(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit seed; neighbouring places (epoch, step, rank) give unrelated ones."""
    key = (seed, PURPOSES.index(purpose), *place)
    low, high = np.random.SeedSequence(key).generate_state(2).tolist()
    return (high << 31) ^ low


def training_generator(seed: int, purpose: str, *place: int) -> Generator:
    """What is drawn for one of `PURPOSES` comes from here."""
    return Generator().manual_seed(training_seed(seed, purpose, *place))


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
    batches = choose(training_generator(seed, "order", epoch)) if choose else None
    if batches is None:
        batches = list(torch.randperm(n, generator=training_generator(seed, "order", epoch)).split(batch_size))
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
            generator = training_generator(seed, "augmentation", epoch, step)
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


# Where the images of a training lie: on its device, or on the host and sent over batch by batch.
#
# The batches are the same either way, bit for bit. Streaming is for sets too large for the device, such as uint8 images
# mapped from a safetensors file: only the pages of the coming batches are read.


_AHEAD = 3  # batches that are prepared before they are asked for
_CHUNK = 512  # images that are resized at once


@dataclass(frozen=True, kw_only=True)
class TrainingImages:
    """The images of a training, ready to be fed. streamed: they stay on the host, at their own size."""

    images: Tensor
    labels: Tensor
    streamed: bool


def place_images(data: ImageSet, image_size: int, device: torch.device, device_share: float) -> TrainingImages:
    """Put the set on the device, reduced to `image_size` if it is larger, unless it would take too much of it.

    device_share: the part of the device's free memory that the images may take; 0 streams always. On a CPU the images
    are where they are needed, and a mapped set stays mapped. Raises ValueError for float images that are not finite.
    """
    if data.images.is_floating_point():
        _check_finite(data.images)
    if _too_large(data, image_size, device, device_share):
        return TrainingImages(images=data.images, labels=data.labels, streamed=True)
    images = _reduced(data.images, image_size).to(device)
    return TrainingImages(images=images, labels=data.labels.to(device), streamed=False)


def feed(
    data: TrainingImages, batches: Iterator[Batch], image_size: int, device: torch.device
) -> Iterating[Batch, None, None]:
    """The batches that `rank_batches` made of these images, on the device; streamed ones are reduced on the way."""
    if not data.streamed:
        yield from batches
        return
    if device.type == "cuda" and device.index is None:  # the current device is a thread's own
        device = torch.device("cuda", torch.cuda.current_device())
    with contextlib.closing(_ahead(_prepared(batch, image_size, device) for batch in batches)) as prepared:
        for batch in prepared:
            images = batch.images.to(device, non_blocking=True)
            yield dataclasses.replace(batch, images=images, labels=batch.labels.to(device, non_blocking=True))


def _too_large(data: ImageSet, image_size: int, device: torch.device, share: float) -> bool:
    if not 0 <= share <= 1:
        raise ValueError(f"device_share: expected a share in [0, 1], got {share}")
    if share == 0:
        return True
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    side = min(data.size, image_size)
    return len(data) * 3 * side * side * data.images.element_size() > share * free


def _reduced(images: Tensor, image_size: int) -> Tensor:
    """Images no larger than `image_size`; the same tensor if they are not."""
    if images.shape[-1] <= image_size:
        return images
    if images.dtype == torch.uint8:
        return resize_uint8(images, image_size)
    return torch.cat([resize(part.float(), image_size).to(images.dtype) for part in images.split(_CHUNK)])


def _prepared(batch: Batch, image_size: int, device: torch.device) -> Batch:
    """A batch on the host, reduced, and in memory that a GPU can copy from while it computes."""
    images = _reduced(batch.images, image_size)
    if device.type != "cuda":
        return dataclasses.replace(batch, images=images)
    with torch.cuda.device(device):
        return dataclasses.replace(batch, images=images.pin_memory(), labels=batch.labels.pin_memory())


def _next_of(items: Iterating[Batch, None, None]) -> tuple[Batch] | None:
    """The next item, by itself; None after the last one."""
    for item in items:
        return (item,)
    return None


def _ahead(items: Iterating[Batch, None, None]) -> Iterating[Batch, None, None]:
    """Yield the same items, preparing the next ones in a thread; an error is raised in place of its item."""
    with contextlib.closing(items), ThreadPoolExecutor(max_workers=1) as thread:  # the thread ends first
        pending = deque(thread.submit(_next_of, items) for _ in range(_AHEAD))
        while item := pending.popleft().result():
            pending.append(thread.submit(_next_of, items))
            yield item[0]


def _check_finite(images: Tensor) -> None:
    for part in images.split(_CHUNK):
        if not part.isfinite().all():
            raise ValueError("images: expected finite floats, got NaN or infinity")


# Images that a defense holds out from the training, and what it learns of them last.


def without_held_out(
    defense: Defense, data: ImageSet, stamp: Stamp | None, seed: int
) -> tuple[ImageSet, Stamp | None, ImageSet | None]:
    """The images to train on and what is stamped on them; and those that the defense holds out, unless stamped.

    Raises InputError where the defense could learn nothing of these.
    """
    chosen = None if stamp is None else stamp.chosen
    back, clean = held_out_rows(defense, data.labels, chosen, classes=data.num_classes, seed=seed)
    if back is None or clean is None:
        return data, stamp, None
    trained = torch.ones(len(data), dtype=torch.bool).scatter(0, back, False).nonzero().squeeze(1)
    return data.subset(trained), stamp.of(trained) if stamp is not None else None, data.subset(clean)


def held_out_rows(
    defense: Defense, labels: Tensor, stamped: Tensor | None, *, classes: int, seed: int
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The rows that the defense holds out, and those of them without a stamp; it needs no image.

    labels: int64 [N], of training images; stamped: bool [N]. Raises InputError where the defense could learn nothing.
    """
    back = defense.hold_out(labels, training_generator(seed, "held out"))
    if back is None:
        return None, None
    clean = back if stamped is None else back[~stamped[back]]
    defense.check_held_out(labels[clean], classes)
    return back, clean


def fit_held_out(
    defense: Defense, model: Classifier, back: ImageSet | None, *, image_size: int, device: torch.device | str
) -> None:
    """What the defense learns from the images that it held out, once the training is over; nothing without any."""
    if back is not None:
        defense.fit(model, evaluate_logits(model, back.images, image_size=image_size, device=device), back.labels)
