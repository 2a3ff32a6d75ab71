"""Where the images of a training lie: on its device, or on the host and sent over batch by batch.

The batches are the same either way, bit for bit. Streaming is for sets too large for the device, such as uint8 images
mapped from a safetensors file: only the pages of the coming batches are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.transforms import resize, resize_uint8
from smoothsweep.core.training.batches import Batch

_AHEAD = 3  # batches that are prepared before they are asked for
_CHUNK = 512  # images that are resized at once
_T = TypeVar("_T")


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
) -> Generator[Batch, None, None]:
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


def _next_of(items: Generator[Batch, None, None]) -> tuple[Batch] | None:
    """The next item, by itself; None after the last one."""
    for item in items:
        return (item,)
    return None


def _ahead(items: Generator[Batch, None, None]) -> Generator[Batch, None, None]:
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
