"""Deterministic image transforms. The augmentation of training lies in `core.data.augmentation`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from smoothsweep.core.errors import InputError

# Images per chunk of a whole-set resize: bounds the float copy to some hundred megabytes at 224 pixels.
_RESIZE_CHUNK = 512
_LEAST_RANGE = 1e-5  # torchvision's: an image of one colour becomes black


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


# As official evaluations enlarge and store images


def truncated_bytes(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] in [-1, 1] cut to whole 8-bit steps, resized as Pillow does, and back to [-1, 1].

    GMI, KED, LOMMA, RLB-MI and BREP-MI: `low2high` of Knowledge-Enriched-DMI, utils.py. The result is on the images'
    device.
    """
    steps = images.detach().cpu().add(1).div(2).mul(255).clamp(0, 255).to(torch.uint8)
    pictures = [Image.fromarray(step.permute(1, 2, 0).contiguous().numpy()) for step in steps]
    resized = [np.array(picture.resize((size, size), Image.Resampling.BILINEAR)) for picture in pictures]
    return to_unit(torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2).contiguous()).to(images.device)


def aligned_corners(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] resized in float, bilinear with aligned corners, without antialiasing, not clipped.

    PLG-MI: kornia's Resize as LetheSec/PLG-MI-Attack, reconstruct.py, uses it before accuracy is measured.
    """
    return F.interpolate(images, size=(size, size), mode="bilinear", align_corners=True)


ENLARGING: dict[str, Callable[[Tensor, int], Tensor]] = {
    "truncated_bytes": truncated_bytes,
    "aligned_corners": aligned_corners,
}
"""(images [N, 3, R, R] nominally in [-1, 1], side) -> images [N, 3, side, side], by the name of the way."""


def stretched(images: Tensor) -> Tensor:
    """Images float [N, 3, R, R], any range -> uint8 of the same shape, each stretched from 0 to 255 by itself.

    Its darkest value of all channels becomes 0, its brightest 255, rounded: torchvision's `save_image` with
    `normalize=True` (LetheSec/PLG-MI-Attack, utils.py save_tensor_images), and PNG loses nothing more. Nominal values
    in [0, 1], as there: those in [-1, 1] are mapped by the caller.
    """
    low, high = (extreme.view(-1, 1, 1, 1) for extreme in torch.aminmax(images.flatten(1), dim=1))
    return ((images - low) / (high - low).clamp_min(_LEAST_RANGE)).mul(255).add(0.5).clamp(0, 255).to(torch.uint8)
