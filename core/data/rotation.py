"""Rotation of images by small angles, bilinear, about the middle, zero outside, with a repeatable gradient.

torch's grid_sample adds gradients in whatever order the threads of a GPU arrive. Here both directions are gathers: a
pixel of the result collects from the four pixels around its source, and in the backward pass a source collects from
the pixels of the result that drew on it, which is the same sum in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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
