"""The random views under which PLG-MI shows images to the target: crop, colours, mirror, rotation.

What `LetheSec/PLG-MI-Attack` gets from kornia 0.6.6 (train_cgan.py, reconstruct.py): RandomResizedCrop of 0.8 to 1 of
the area, ColorJitter of brightness and contrast by 0.2, RandomHorizontalFlip, RandomRotation by 5 degrees. Written here
since torchvision's transforms give one draw to a whole batch, and so that the backward pass is the same every time on
every device, which that of torch's sampling kernels is not on CUDA. Images are [N, 3, S, S], meant for [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.data.augmentation import rotated

AREA = (0.8, 1.0)  # share of the image that a crop takes
JITTER = 0.2  # brightness and contrast are multiplied by 1 +- this
DEGREES = 5.0
CHANCE = 0.5  # of the mirror, and of the rotation
_ATTEMPTS = 10  # boxes that kornia tries before it takes the whole image
_GREY = (0.299, 0.587, 0.114)
_BRIGHTNESS, _CONTRAST = 0, 1  # in `Distortion.order`; 2 and 3, saturation and hue, are left at 1 and 0


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """One draw for N images of S pixels, on the CPU.

    Attributes:
        top, left, side: Box of whole pixels, int64 [N].
        jitter, mirror, rotate: bool [N], whether it happens.
        brightness, contrast: Factors, [N].
        order: int64 [N, 4], in which order brightness 0, contrast 1, saturation 2 and hue 3 are changed, one row where
            all images share it.
        degrees: [N], anticlockwise.
    """

    top: Tensor
    left: Tensor
    side: Tensor
    jitter: Tensor
    brightness: Tensor
    contrast: Tensor
    order: Tensor
    mirror: Tensor
    rotate: Tensor
    degrees: Tensor

    def of(self, rows: slice) -> Distortion:
        """The distortion of some of the images."""
        part = {name: value[rows] for name, value in vars(self).items() if name != "order"}
        return Distortion(**part, order=self.order if len(self.order) == 1 else self.order[rows])


def draw_distortion(
    count: int, side: int, source: torch.Generator, *, jitter: float, shared_order: torch.Generator | None = None
) -> Distortion:
    """A distortion for `count` images of `side` pixels. jitter: chance that the colours of an image are changed.

    shared_order: draws one order of the colour changes for all images, as kornia does; None: each has its own.
    """

    def uniform(low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=source, dtype=torch.float64)

    box = _draw_side(count, side, source)
    room = (side - box + 1).double()
    top, left = ((uniform() * room).floor().long().minimum(side - box) for _ in range(2))
    brightness, contrast = (uniform(1 - JITTER, 1 + JITTER).float() for _ in range(2))
    if shared_order is None:
        order = torch.rand(count, 4, generator=source).argsort(dim=1)
    else:
        order = torch.randperm(4, generator=shared_order)[None]
    return Distortion(
        top=top,
        left=left,
        side=box,
        brightness=brightness,
        contrast=contrast,
        order=order,
        jitter=uniform() < jitter,
        mirror=uniform() < CHANCE,
        rotate=uniform() < CHANCE,
        degrees=uniform(-DEGREES, DEGREES).float(),
    )


def _draw_side(count: int, side: int, source: torch.Generator) -> Tensor:
    """Sides of boxes: of ten tries the first that is smaller than the image (a box as large as it counts as a miss);
    else all of it."""
    area = AREA[0] + (AREA[1] - AREA[0]) * torch.rand(count, _ATTEMPTS, generator=source, dtype=torch.float64)
    tries = (area.sqrt() * side).round().long()
    fits = (tries < side) & (tries > 0)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    return torch.where(fits.any(1), tries.gather(1, first)[:, 0], side)


def distort(images: Tensor, draw: Distortion) -> Tensor:
    """The images [N, 3, S, S] under a draw, of the same size, differentiable."""
    images = cropped(images, draw)
    images = torch.where(_each(draw.jitter, images), jittered(images, draw), images)
    images = torch.where(_each(draw.mirror, images), images.flip(3), images)
    return torch.where(_each(draw.rotate, images), rotated(images, draw.degrees), images)


def cropped(images: Tensor, draw: Distortion) -> Tensor:
    """The boxes, brought back to S pixels: bilinear with aligned corners, no antialiasing, as two matrix products."""
    size = images.shape[-1]
    rows, columns = (_stretch(first, draw.side, size).to(images) for first in (draw.top, draw.left))
    return rows[:, None] @ images @ columns.mT[:, None]


def _stretch(first: Tensor, length: Tensor, size: int) -> Tensor:
    """[N, S, S]: each row holds the weights of a new pixel's two neighbours within the box."""
    step = (length - 1).double()[:, None] / (size - 1)
    place = first[:, None] + torch.arange(size) * step
    return (1 - (place[..., None] - torch.arange(size)).abs()).clamp_min(0)


def jittered(images: Tensor, draw: Distortion) -> Tensor:
    """Colours changed in the drawn order. Every change clamps to [0, 1], saturation too, though its factor is 1.

    Hue is left alone: kornia's way to HSV and back with nothing in between changes neither values nor gradients.
    """
    brightness, contrast = (_each(factor, images) for factor in (draw.brightness, draw.contrast))
    for place in range(draw.order.shape[1]):
        kinds = draw.order[:, place]
        changed = {kind: _changed(images, kind, brightness, contrast) for kind in kinds.unique().tolist()}
        if len(changed) == 1:
            (images,) = changed.values()
            continue
        for kind, other in changed.items():
            images = torch.where(_each(kinds == kind, images), other, images)
    return images


def _changed(images: Tensor, kind: int, brightness: Tensor, contrast: Tensor) -> Tensor:
    if kind == _BRIGHTNESS:
        return (images * brightness).clamp(0, 1)
    if kind == _CONTRAST:
        grey = (images * images.new_tensor(_GREY)[:, None, None]).sum(1, keepdim=True)
        return (images * contrast + grey.mean(dim=(2, 3), keepdim=True) * (1 - contrast)).clamp(0, 1)
    return images.clamp(0, 1) if kind == 2 else images


def _each(values: Tensor, images: Tensor) -> Tensor:
    """[N] -> [N, 1, 1, 1] on the images' device."""
    return values.to(images.device, None if values.dtype == torch.bool else images.dtype)[:, None, None, None]
