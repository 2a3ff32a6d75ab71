"""Deterministic image transforms, and the crops that one draw shares over a whole batch.

The per-image augmentation of training lies in `core.data.augmentation`; its names are available here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torchvision import transforms as tv

from core.data.augmentation import (
    Augmentation,
    apply_augmentation,
    draw_augmentation,
)
from core.errors import InputError

# Images per chunk of a whole-set resize: bounds the float copy to some hundred megabytes at 224 pixels.
_RESIZE_CHUNK = 512


def to_unit(images: Tensor) -> Tensor:
    """uint8 [N, 3, H, W] -> float32 of the same shape in [-1, 1] (mean and standard deviation 0.5)."""
    if images.dtype != torch.uint8:
        raise ValueError(f"to_unit: expected uint8 images, got {images.dtype}")
    return images.to(torch.float32).mul_(2.0 / 255.0).sub_(1.0)


def to_uint8(images: Tensor) -> Tensor:
    """float [N, 3, H, W] nominally in [-1, 1] -> uint8, rounded; values beyond the range are clipped."""
    return images.clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8)


def resize(images: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Resize float images [N, C, H, W] to `size` (side, or height and width), bilinear with antialiasing.

    What torchvision's Resize does with tensors when `antialias` is on, for an exact target size; no clipping.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if tuple(images.shape[-2:]) == (height, width):
        return images
    return F.interpolate(images, size=(height, width), mode="bilinear", align_corners=False, antialias=True)


def resize_uint8(images: Tensor, size: int) -> Tensor:
    """uint8 [N, 3, H, W] -> uint8 [N, 3, size, size]; through float and rounded, on whichever device they
    are.
    """
    if images.shape[-1] == size and images.shape[-2] == size:
        return images
    chunks = [resize(c.float(), size).round_().clamp_(0, 255).to(torch.uint8) for c in images.split(_RESIZE_CHUNK)]
    return torch.cat(chunks) if chunks else images.new_empty(0, images.shape[1], size, size)


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The central `size` x `size` square of images [..., H, W]; odd margins as in torchvision (rounded half to even).

    Raises InputError if the images are smaller than the crop.
    """
    height, width = images.shape[-2:]
    if height < size or width < size:
        raise InputError(f"centre crop: expected images of at least {size} x {size} pixels, got {height} x {width}")
    top, left = round((height - size) / 2.0), round((width - size) / 2.0)
    return images[..., top : top + size, left : left + size]


def random_resized_crop_shared(
    images: Tensor,
    size: int,
    *,
    scale: tuple[float, float],
    ratio: tuple[float, float] = (1.0, 1.0),
    generator: Generator,
) -> Tensor:
    """One random box, the same for every image of the batch [N, C, H, W], resized to `size` with antialiasing.

    This is what torchvision's RandomResizedCrop does to a batch, and with it the published attack (protocol
    `paper`); a generator in the state of torch's global one gives the identical box.
    """
    top, left, box_height, box_width = _shared_box(*images.shape[-2:], scale, ratio, generator)
    return resize(images[..., top : top + box_height, left : left + box_width], size)


def random_resized_crop_per_image(
    images: Tensor,
    size: int,
    *,
    scale: tuple[float, float],
    ratio: tuple[float, float] = (1.0, 1.0),
    generator: Generator,
) -> Tensor:
    """An independent random box for every image of [N, C, H, W] (protocol `clean`), resized with antialiasing."""
    crop_only = Augmentation.none().replace(crop_scale=scale, crop_ratio=ratio)
    draw = draw_augmentation(len(images), crop_only, generator)
    return apply_augmentation(images, draw, out_size=size)


def _shared_box(
    height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float], generator: Generator
) -> tuple[int, int, int, int]:
    """Top, left, height and width of one box; consumes random numbers exactly as torchvision 0.26 does."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(10):
        area = height * width * torch.empty(1).uniform_(*scale, generator=generator).item()
        aspect = torch.exp(torch.empty(1).uniform_(low, high, generator=generator)).item()
        box_width, box_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = int(torch.randint(0, height - box_height + 1, (1,), generator=generator))
            left = int(torch.randint(0, width - box_width + 1, (1,), generator=generator))
            return top, left, box_height, box_width
    # Ten misses mean that the ratio does not fit the image: the largest central box that keeps to it.
    aspect = min(max(width / height, ratio[0]), ratio[1])
    box_width = min(width, round(height * aspect))
    box_height = min(height, round(width / aspect))
    return (height - box_height) // 2, (width - box_width) // 2, box_height, box_width


def reference_test_transform(size: int | tuple[int, int], *, crop: bool = False) -> Callable[[Any], Tensor]:
    """The published test transform: PIL image -> float [3, H, W] in [-1, 1].

    An integer size scales the shorter side and keeps the aspect (FaceScrub); with `crop` the central square
    follows (CelebA); a pair is the exact height and width (Stanford Dogs). Source: Plug-and-Play-Attacks,
    utils/training_config_parser.py; protocol `paper`.
    """
    steps: list[Any] = [tv.Resize(size, antialias=True), tv.ToTensor()]
    if crop:
        steps.append(tv.CenterCrop(size))
    return tv.Compose([*steps, tv.Normalize((0.5,) * 3, (0.5,) * 3)])


def reference_train_transform(
    size: int | tuple[int, int], augmentation: Augmentation | None = None
) -> Callable[[Any], Tensor]:
    """The published training transform: PIL image -> float [3, size, size] in [-1, 1], by torchvision's global RNG.

    Order: resize, to tensor, crop, colour jitter (in random order), flip, normalise. The defaults of
    `Augmentation` are the paper's. It exists to compare with; training uses `augment_batch`. Source: as
    above.
    """
    a = augmentation or Augmentation()
    out = (size, size) if isinstance(size, int) else size
    return tv.Compose(
        [
            tv.Resize(size, antialias=True),
            tv.ToTensor(),
            tv.RandomResizedCrop(out, scale=a.crop_scale, ratio=a.crop_ratio, antialias=True),
            tv.ColorJitter(a.brightness, a.contrast, a.saturation, a.hue),
            tv.RandomHorizontalFlip(a.flip),
            tv.Normalize((0.5,) * 3, (0.5,) * 3),
        ]
    )
