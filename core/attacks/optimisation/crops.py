"""Random crops, resized back: the augmentations of stages 2 and 3, and the fixed crop and resize before them.

All resampling is bilinear with antialiasing, written as two small matrix products per image. That makes one
crop for the batch and one crop per image the same operation, a mirror costs nothing, and the backward pass is
deterministic on every device (the interpolation kernels of torch are not, on CUDA).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from smoothsweep.core.attacks.ppa.config import CropRule
from smoothsweep.core.data.images import centre_crop
from smoothsweep.core.seeds import generator

_ATTEMPTS = 10  # torchvision tries ten boxes before it falls back to the centre


@dataclass(frozen=True, kw_only=True)
class Crops:
    """Boxes in pixels, float64 [M] each, and mirrors, bool [M]. M = 1: one for all images; else one each."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    mirror: Tensor

    def __len__(self) -> int:
        return len(self.top)

    def of(self, rows: slice) -> Crops:
        """The crops of some of the images (a shared crop stays as it is)."""
        return self if len(self) == 1 else Crops(**{name: value[rows] for name, value in vars(self).items()})

    def to(self, device: torch.device) -> Crops:
        if device == self.top.device:
            return self
        # One copy that the host does not wait for, instead of five that it does.
        packed = torch.stack([value.double() for value in vars(self).values()])
        if device.type == "cuda":
            packed = packed.pin_memory()
        moved = dict(zip(vars(self), packed.to(device, non_blocking=True).unbind(), strict=True))
        return Crops(**{**moved, "mirror": moved["mirror"].bool()})


def joined_crops(parts: Sequence[tuple[Crops, int]]) -> Crops:
    """The crops of (crops, images) one after the other, one per image, a shared one repeated; of one part as it is."""
    if len(parts) == 1:
        return parts[0][0]
    names = vars(parts[0][0])
    return Crops(**{name: torch.cat([getattr(part, name).expand(count) for part, count in parts]) for name in names})


DrawCrops = Callable[[CropRule, int, int, int, torch.Generator], Crops]
"""(rule, number of images, height, width, generator) -> one crop for all images, or one per image."""


def draw_shared_crop(rule: CropRule, count: int, height: int, width: int, source: torch.Generator) -> Crops:
    """One box of whole pixels and one mirror for all `count` images, by the rule of RandomResizedCrop.

    That is what a batch gets from torchvision's transforms, hence from the official attack in stages 2 and 3.
    """
    return _draw(rule, 1, height, width, source, whole_pixels=True)


def draw_crop_per_image(rule: CropRule, count: int, height: int, width: int, source: torch.Generator) -> Crops:
    """`count` independent boxes (not rounded to whole pixels) and mirrors."""
    return _draw(rule, count, height, width, source, whole_pixels=False)


DRAW_CROPS: dict[str, DrawCrops] = {"paper": draw_shared_crop, "clean": draw_crop_per_image}


Key = tuple[int | str, ...]
"""What draws depend on, beside the step."""


class RowViews:
    """The random crops, step by step, of rows that are computed together and lie one part after the other.

    parts: of each its key, how many candidates that key draws for, and which of them the part has. The crops of a step
    depend on the key and the step alone, and are drawn for all candidates at once, so that a candidate's own does not
    depend on the batch it is in.
    """

    def __init__(self, rule: CropRule, draw: DrawCrops, parts: Sequence[tuple[Key, int, slice]]) -> None:
        self._rule, self._draw, self._parts = rule, draw, parts
        self._step, self._drawn = -1, dict[Key, Crops]()

    def at(self, step: int, images: Tensor, rows: slice) -> Crops:
        """The crops of `rows`, which show `images` [N, 3, H, W]; those of all parts are drawn once per step."""
        if step != self._step:
            counts, size = {key: count for key, count, _ in self._parts}, images.shape[2:]
            self._drawn = {k: self._draw(self._rule, n, *size, generator(*k, step)) for k, n in counts.items()}
            self._step = step
        found, start = [], 0
        for key, _, span in self._parts:
            first, last = max(rows.start, start), min(rows.stop, start + span.stop - span.start)
            if first < last:
                within = slice(first - start + span.start, last - start + span.start)
                found.append((self._drawn[key].of(within), last - first))
            start += span.stop - span.start
        return joined_crops(found)


def _draw(rule: CropRule, count: int, height: int, width: int, source: torch.Generator, *, whole_pixels: bool) -> Crops:
    uniform = torch.rand(2, count, _ATTEMPTS, generator=source, dtype=torch.float64)
    mirror = torch.rand(count, generator=source, dtype=torch.float64) < rule.hflip
    area = height * width * (rule.scale[0] + (rule.scale[1] - rule.scale[0]) * uniform[0])
    low, high = math.log(rule.ratio[0]), math.log(rule.ratio[1])
    ratio = torch.exp(low + (high - low) * uniform[1])
    box = torch.stack([(area / ratio).sqrt(), (area * ratio).sqrt()])  # [2, count, attempts]: height, width
    if whole_pixels:
        box = box.round()
    limit = torch.tensor([height, width], dtype=torch.float64)[:, None, None]
    fits = ((box <= limit * (1 + 1e-9)) & (box >= 1)).all(0)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)  # 0 if none fits
    chosen = box.gather(2, first.expand(2, count, 1)).squeeze(2)
    has_fit = fits.any(1)
    fallback = torch.tensor(_centre_box(rule, height, width), dtype=torch.float64)
    size = torch.where(has_fit, chosen, fallback[:, None]).minimum(limit[:, :, 0]).clamp_min(1)
    room = limit[:, :, 0] - size
    place = torch.rand(2, count, generator=source, dtype=torch.float64)
    corner = (place * (room + 1)).floor().minimum(room) if whole_pixels else place * room
    corner = torch.where(has_fit, corner, (room / 2).floor() if whole_pixels else room / 2)
    return Crops(top=corner[0], left=corner[1], height=size[0], width=size[1], mirror=mirror)


def _centre_box(rule: CropRule, height: int, width: int) -> tuple[float, float]:
    ratio = width / height
    if ratio < rule.ratio[0]:
        return round(width / rule.ratio[0]), width
    if ratio > rule.ratio[1]:
        return height, round(height * rule.ratio[1])
    return height, width


def apply_crops(images: Tensor, crops: Crops, size: int) -> Tensor:
    """Cut out the boxes, resize them to size x size (bilinear, antialiased), mirror where told.

    images: float [N, 3, H, W]; crops: 1 or N of them. Returns [N, 3, size, size] in the dtype of `images`.
    Whole-pixel boxes give what torchvision's resized_crop gives.
    """
    if len(crops) not in (1, len(images)):
        raise ValueError(f"crops: expected 1 or {len(images)}, got {len(crops)}")
    crops = crops.to(images.device)
    no_mirror = torch.zeros_like(crops.mirror)
    rows = resampling_matrix(crops.top, crops.height, no_mirror, length=images.shape[2], size=size)
    columns = resampling_matrix(crops.left, crops.width, crops.mirror, length=images.shape[3], size=size)
    return _resample(images, rows, columns)


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """The fixed way from a prior's image to a target's input: centre crop (None: none), resize to `size`."""

    size: int
    crop: int | None = None

    def __call__(self, images: Tensor) -> Tensor:
        """float [N, 3, R, R] -> [N, 3, size, size], bilinear with antialiasing. Values are not clipped.

        Raises InputError for images smaller than the crop.
        """
        images = images if self.crop is None else centre_crop(images, self.crop)
        height, width = images.shape[2:]
        if height == width == self.size:
            return images
        return _resample(images, *_resize_matrices(height, width, self.size, images.device, images.dtype))


def resampling_matrix(start: Tensor, extent: Tensor, mirror: Tensor, *, length: int, size: int) -> Tensor:
    """Weights [M, size, length] that turn the interval [start, start + extent) of a line into `size` pixels.

    Bilinear: a triangle of half-width max(1, extent / size) pixels around each output position, over the pixels that
    the interval touches, normalised.

    Args:
        start, extent: float64 [M].
        mirror: bool [M].
    """
    scale = extent[:, None, None] / size
    position = torch.arange(size, dtype=start.dtype, device=start.device)[None, :, None] + 0.5
    position = torch.where(mirror[:, None, None], size - position, position)
    centre = start[:, None, None] + scale * position
    pixel = torch.arange(length, dtype=start.dtype, device=start.device)[None, None, :] + 0.5
    weights = (1 - (pixel - centre).abs() / scale.clamp_min(1.0)).clamp_min(0.0)
    first, last = start[:, None, None], (start + extent)[:, None, None]
    weights = weights * ((pixel + 0.5 > first + 1e-9) & (pixel - 0.5 < last - 1e-9))
    return weights / weights.sum(2, keepdim=True)


@lru_cache(maxsize=16)
def _resize_matrices(
    height: int, width: int, size: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    zero = torch.zeros(1, dtype=torch.float64)
    matrices = [
        resampling_matrix(zero, zero + length, zero.bool(), length=length, size=size) for length in (height, width)
    ]
    return matrices[0].to(device, dtype), matrices[1].to(device, dtype)


def _resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    rows = rows.to(images)
    columns = columns.to(images).transpose(1, 2)
    if len(rows) == 1:
        return torch.matmul(rows[0], torch.matmul(images, columns[0]))
    return torch.matmul(rows[:, None], torch.matmul(images, columns[:, None]))
