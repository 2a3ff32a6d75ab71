"""Differentiable distortions shown to a discriminator, drawn apart from being applied.

The same family of distortions for real and generated images keeps a discriminator from memorising a small
data set without leaking into the generator (DiffAugment, arXiv 2006.10738; ADA, arXiv 2006.06676).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

MAX_SHIFT = 1 / 8
"""Largest translation, in image sides."""
HOLE = 1 / 2
"""Side of the cut-out square, in image sides."""
BRIGHTNESS, SATURATION, CONTRAST = 0.4, 0.5, 0.3
"""Half-widths of the uniform draws around no change; brightness on images in [-1, 1]."""


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """One draw for each of N images. What does not apply to an image holds its neutral value.

    Attributes:
        flip: bool [N].
        shift: int64 [N, 2], pixels down and right.
        brightness: [N], added.
        saturation, contrast: [N], factors.
        hole: int64 [N, 2], top left corner of the cut-out; the image side where there is none.
    """

    flip: Tensor
    shift: Tensor
    brightness: Tensor
    saturation: Tensor
    contrast: Tensor
    hole: Tensor

    def part(self, index: slice) -> Distortion:
        """The draws of some of the images."""
        return Distortion(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def draw_distortion(n: int, side: int, probability: float, generator: torch.Generator) -> Distortion:
    """Draw for n images of `side` pixels; each kind of distortion hits each image with `probability`.

    Tensors lie on the generator's device.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=generator.device)

    active = uniform(n, 6) < probability
    reach = max(1, round(side * MAX_SHIFT))
    shift = (uniform(n, 2) * (2 * reach + 1)).long().clamp_max(2 * reach) - reach
    cut = round(side * HOLE)
    hole = (uniform(n, 2) * (side + cut)).long() - cut
    colour = (2 * uniform(n, 3) - 1) * active[:, 2:5]
    return Distortion(
        flip=active[:, 0] & (uniform(n) < 0.5),
        shift=shift * active[:, 1:2],
        brightness=colour[:, 0] * BRIGHTNESS,
        saturation=1 + colour[:, 1] * SATURATION,
        contrast=1 + colour[:, 2] * CONTRAST,
        hole=torch.where(active[:, 5:6], hole, side),
    )


def distort(images: Tensor, distortion: Distortion) -> Tensor:
    """images [N, 3, R, R] in [-1, 1] -> the same shape; flip, shift (mirrored at the border), colour, cut-out."""
    images = torch.where(distortion.flip[:, None, None, None], images.flip(3), images)
    images = _translate(images, distortion.shift)
    images = images + distortion.brightness[:, None, None, None]
    grey = images.mean(dim=1, keepdim=True)
    images = grey + (images - grey) * distortion.saturation[:, None, None, None]
    level = images.mean(dim=(1, 2, 3), keepdim=True)
    images = level + (images - level) * distortion.contrast[:, None, None, None]
    return images * _mask(distortion.hole, images.shape[-1])


def _translate(images: Tensor, shift: Tensor) -> Tensor:
    reach = int(shift.abs().max()) if len(shift) else 0
    if reach == 0:
        return images
    side = images.shape[-1]
    padded = F.pad(images, (reach,) * 4, mode="reflect")
    corners = (reach - shift).tolist()
    return torch.stack(
        [image[:, top : top + side, left : left + side] for image, (top, left) in zip(padded, corners, strict=True)]
    )


def _mask(hole: Tensor, side: int) -> Tensor:
    """[N, 1, R, R]: 0 inside each image's hole, 1 elsewhere."""
    place = torch.arange(side, device=hole.device)
    inside = (place >= hole[:, :, None]) & (place < hole[:, :, None] + round(side * HOLE))
    return (~(inside[:, 0, :, None] & inside[:, 1, None, :])).float()[:, None]
