"""Random crop, colour jitter and flip, drawn for every image on its own or once for all, applied to the batch at once.

Drawing and applying are two steps: in data-parallel training every rank draws for the whole global batch and
applies its slice, so that the number of ranks does not change what an image looks like.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from smoothsweep.core.data.augmentation_settings import Augmentation

# Weights of the grey value, as torchvision's rgb_to_grayscale uses them.
_GREY = (0.2989, 0.587, 0.114)
_CROP_TRIES = 10  # torchvision draws at most ten boxes before it falls back
_COLUMNS = 2 * _CROP_TRIES + 2 + 4 + 1  # random numbers per image: boxes, position, four colour factors, flip


@dataclass(frozen=True, kw_only=True)
class AugmentationDraw:
    """The parameters drawn for n images; None where a part is switched off.

    Attributes:
        box: float32 [n, 4]: height and width as shares of the image's, then two numbers in [0, 1) that place the box.
        brightness, contrast, saturation, hue: float32 [n].
        flip: bool [n].
    """

    n: int
    box: Tensor | None = None
    brightness: Tensor | None = None
    contrast: Tensor | None = None
    saturation: Tensor | None = None
    hue: Tensor | None = None
    flip: Tensor | None = None

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: slice) -> AugmentationDraw:
        """The parameters of a contiguous part of the batch."""
        parts = {name: value if value is None else value[index] for name, value in self._tensors().items()}
        return AugmentationDraw(n=len(range(*index.indices(self.n))), **parts)

    def to(self, device: torch.device | str) -> AugmentationDraw:
        """Move the parameters to another device."""
        parts = {k: v if v is None else v.to(device, non_blocking=True) for k, v in self._tensors().items()}
        return AugmentationDraw(n=self.n, **parts)

    def _tensors(self) -> dict[str, Tensor | None]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "n"}


def draw_augmentation(n: int, augmentation: Augmentation, generator: Generator) -> AugmentationDraw:
    """Draw the parameters of n images from a CPU generator.

    Every image uses the same count of random numbers whatever is switched on: turning the flip off leaves the
    crops as they were. A box whose ratio does not fit the image is drawn again up to ten times, like
    torchvision's, and then cut to the image; its share of the area is measured before its sides are rounded
    to whole pixels. A shared draw is what a batch of one image would get.
    """
    u = torch.rand(1 if augmentation.shared else n, _COLUMNS, generator=generator, dtype=torch.float64)
    u = u.expand(n, -1)
    a, colour = augmentation, u[:, 2 * _CROP_TRIES + 2 :]

    def factor(column: int, strength: float) -> Tensor | None:
        low = max(0.0, 1.0 - strength)
        return (low + (1 + strength - low) * colour[:, column]).float() if strength else None

    return AugmentationDraw(
        n=n,
        box=_draw_box(u[:, : 2 * _CROP_TRIES + 2], a) if a.crops else None,
        brightness=factor(0, a.brightness),
        contrast=factor(1, a.contrast),
        saturation=factor(2, a.saturation),
        hue=(a.hue * (2 * colour[:, 3] - 1)).float() if a.hue else None,
        flip=colour[:, 4] < a.flip if a.flip else None,
    )


def _draw_box(u: Tensor, a: Augmentation) -> Tensor:
    """Uniform numbers [n, 2 * tries + 2] -> boxes [n, 4] as `AugmentationDraw` describes them."""
    area = a.crop_scale[0] + (a.crop_scale[1] - a.crop_scale[0]) * u[:, :_CROP_TRIES]
    low, high = math.log(a.crop_ratio[0]), math.log(a.crop_ratio[1])
    aspect = torch.exp(low + (high - low) * u[:, _CROP_TRIES : 2 * _CROP_TRIES])
    height, width = (area / aspect).sqrt(), (area * aspect).sqrt()
    first_fitting = ((height <= 1) & (width <= 1)).to(torch.uint8).argmax(dim=1, keepdim=True)
    sides = torch.stack([height.gather(1, first_fitting), width.gather(1, first_fitting)], dim=1).squeeze(2)
    return torch.cat([sides.clamp(max=1.0), u[:, -2:]], dim=1).float()


def apply_augmentation(images: Tensor, draw: AugmentationDraw, *, out_size: int | None = None) -> Tensor:
    """Images [n, 3, H, W] in [0, 1] with their drawn parameters -> [n, 3, out, out] in [0, 1].

    Order: crop (to whole pixels inside the image) and antialiased bilinear resize to `out_size` (default:
    unchanged size), then brightness, contrast, saturation and hue with torchvision's definitions of the
    factors, then flip. torchvision shuffles the four colour steps; the fixed order is the only difference in
    distribution. Crops alone may be used on any float images [n, C, H, W].
    """
    if len(images) != len(draw):
        raise ValueError(f"augmentation drawn for {len(draw)} images, got {len(images)}")
    height, width = images.shape[-2:]
    out_height, out_width = (height, width) if out_size is None else (out_size, out_size)
    draw = draw.to(images.device)
    if draw.box is None and draw.flip is None and (out_height, out_width) == (height, width):
        return _jitter(images, draw)
    top, left, box_height, box_width = _pixel_box(draw, height, width, images.device)
    rows = _resampling_matrix(top, box_height, height, out_height)
    columns = _resampling_matrix(left, box_width, width, out_width)
    if draw.flip is not None:  # mirroring the columns' matrix costs nothing; the colour steps do not see positions
        columns = torch.where(draw.flip[:, None, None], columns.flip(1), columns)
    return _jitter(_resample(images, rows, columns), draw)


def _pixel_box(
    draw: AugmentationDraw, height: int, width: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height, width of every box in whole pixels, float32 [n] each."""
    if draw.box is None:
        full = torch.ones(draw.n, device=device)
        return full * 0, full * 0, full * height, full * width
    box_height = (draw.box[:, 0] * height).round().clamp(min=1)
    box_width = (draw.box[:, 1] * width).round().clamp(min=1)
    top = (draw.box[:, 2] * (height - box_height + 1)).floor().minimum(height - box_height)
    left = (draw.box[:, 3] * (width - box_width + 1)).floor().minimum(width - box_width)
    return top, left, box_height, box_width


def _resampling_matrix(start: Tensor, length: Tensor, size: int, out_size: int) -> Tensor:
    """Weights [n, out_size, size] that resample `length` pixels from `start` on to `out_size` pixels.

    The triangle filter of bilinear interpolation, widened when it reduces (that is the antialiasing) and cut
    and renormalised at the borders of the box.
    """
    scale = (length / out_size)[:, None]
    centre = start[:, None] + (torch.arange(out_size, device=start.device) + 0.5) * scale
    pixel = torch.arange(size, device=start.device, dtype=torch.float32)
    reach = scale.clamp(min=1.0)[..., None]
    weight = (1 - ((pixel + 0.5) - centre[..., None]).abs() / reach).clamp_(min=0)
    inside = (pixel >= start[:, None]) & (pixel < (start + length)[:, None])
    weight = weight * inside[:, None]
    return weight / weight.sum(dim=2, keepdim=True)


def _resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply [n, h, H] to the rows and [n, w, W] to the columns of images [n, C, H, W]."""
    n, channels, height, width = images.shape
    narrow = torch.bmm(images.reshape(n, channels * height, width), columns.transpose(1, 2))
    return torch.matmul(rows[:, None], narrow.view(n, channels, height, -1))


def _jitter(images: Tensor, draw: AugmentationDraw) -> Tensor:
    """Brightness, contrast, saturation, hue; each clips to [0, 1] as torchvision's does."""
    if draw.brightness is not None:
        images = (images * draw.brightness.view(-1, 1, 1, 1)).clamp_(0, 1)
    if draw.contrast is not None:
        factor = draw.contrast.view(-1, 1, 1, 1)
        mean = _grey(images).mean(dim=(1, 2, 3), keepdim=True)
        images = torch.addcmul(mean * (1 - factor), images, factor).clamp_(0, 1)
    if draw.saturation is not None:
        factor = draw.saturation.view(-1, 1, 1, 1)
        images = torch.addcmul(_grey(images) * (1 - factor), images, factor).clamp_(0, 1)
    return images if draw.hue is None else _shift_hue(images, draw.hue.view(-1, 1, 1))


def _grey(images: Tensor) -> Tensor:
    """[n, 3, H, W] -> [n, 1, H, W]."""
    red, green, blue = images.unbind(dim=1)
    return (_GREY[0] * red).add_(green, alpha=_GREY[1]).add_(blue, alpha=_GREY[2]).unsqueeze(1)


def _shift_hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue of [n, 3, H, W] by `shift` [n, 1, 1] in turns; value and saturation (HSV) stay."""
    red, green, blue = images.unbind(dim=1)
    value, chroma = images.amax(dim=1), images.amax(dim=1) - images.amin(dim=1)
    # Hue in sixths of a turn; a grey pixel has none, and chroma 0 makes whatever comes out irrelevant.
    safe = torch.where(chroma == 0, 1.0, chroma)
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = hue + 6 * shift
    shifted = []
    for offset in (5.0, 3.0, 1.0):
        position = (hue + offset).remainder(6)
        shifted.append(value - chroma * position.minimum(4 - position).clamp(0, 1))
    return torch.stack(shifted, dim=1).clamp_(0, 1)


# Rotation of images by small angles, bilinear, about the middle, zero outside, with a repeatable gradient.
#
# torch's grid_sample adds gradients in whatever order the threads of a GPU arrive. Here both directions are gathers: a
# pixel of the result collects from the four pixels around its source, and in the backward pass a source collects from
# the pixels of the result that drew on it, which is the same sum in a fixed order.


MOST = 45.0
"""Degrees: as far as the pixels that draw on a source are known to lie within `_USERS`."""

_AROUND = range(2)  # along an axis, the pixels on both sides of a place
_USERS = range(-1, 3)  # those within 1.42 pixels of it: cos 45 + sin 45


def rotated(images: Tensor, degrees: Tensor) -> Tensor:
    """images [N, C, S, S] turned anticlockwise by degrees [N]. Raises ValueError for more than `MOST` either way."""
    if bool((degrees.abs() > MOST).any()):
        raise ValueError(f"degrees: expected at most {MOST:g} either way, got {degrees.tolist()}")
    return _Rotate.apply(images, degrees.to(images.device, images.dtype).deg2rad())


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, angles: Tensor) -> Tensor:
        ctx.save_for_backward(angles)
        y, x = _turned(*_pixels(images), angles, images.shape[-1])

        def share(row: Tensor, column: Tensor) -> Tensor:
            return _hat(y - row) * _hat(x - column)

        return _collected(images, y, x, _AROUND, share)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (angles,) = ctx.saved_tensors
        size, (y, x) = gradient.shape[-1], _pixels(gradient)

        def share(row: Tensor, column: Tensor) -> Tensor:
            source_y, source_x = _turned(row, column, angles, size)
            return _hat(source_y - y) * _hat(source_x - x)

        return _collected(gradient, *_turned(y, x, -angles, size), _USERS, share), None


def _collected(
    values: Tensor, y: Tensor, x: Tensor, offsets: range, share: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Sum for every place (y, x), each [N, S, S], over the pixels near it of share(row, column) times value."""
    size, total = values.shape[-1], torch.zeros_like(values, memory_format=torch.contiguous_format)
    flat = values.flatten(2)
    for down in offsets:
        for right in offsets:
            row, column = y.floor() + down, x.floor() + right
            weight = share(row, column)
            weight = weight.where((row >= 0) & (row < size) & (column >= 0) & (column < size), 0.0)
            index = (row.clamp(0, size - 1) * size + column.clamp(0, size - 1)).long().flatten(1)
            near = flat.gather(2, index[:, None].expand(-1, flat.shape[1], -1)).view_as(values)
            total += weight[:, None] * near
    return total


def _pixels(images: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every pixel, each [N, S, S]."""
    axis = torch.arange(images.shape[-1], device=images.device, dtype=images.dtype)
    row, column = torch.meshgrid(axis, axis, indexing="ij")
    return row.expand(len(images), -1, -1), column.expand(len(images), -1, -1)


def _turned(y: Tensor, x: Tensor, angles: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Where the pixels at (y, x) of an image turned anticlockwise by `angles` come from."""
    middle, cos, sin = (size - 1) / 2, angles.cos()[:, None, None], angles.sin()[:, None, None]
    y, x = y - middle, x - middle
    return x * sin + y * cos + middle, x * cos - y * sin + middle


def _hat(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp_min(0)
