"""The two steps of a stage, each with a backward pass of its own: few passes over memory, no gradient of a weight.

Features lie as [n, height, width, channels], so that a pointwise convolution is one product of matrices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

SLOPE = 0.2
"""Slope of every leaky ReLU."""


class StyledConvolution(torch.autograd.Function):
    """Scale, depthwise 3x3, pointwise, noise, bias, leaky ReLU."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor | None, depthwise: Tensor, pointwise: Tensor, bias: Tensor, noise: Tensor
    ) -> Tensor:
        """x [n, a, b, C], scale [n, C] or None, depthwise [C, 1, 3, 3], pointwise [O, C], noise [a, b, 1]."""
        y = x if scale is None else x * scale[:, None, None, :]
        y = functional.linear(_depthwise(y, depthwise), pointwise, bias)
        functional.leaky_relu_(y.add_(noise), SLOPE)
        ctx.save_for_backward(x, scale, depthwise, pointwise, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, depthwise, pointwise, y = ctx.saved_tensors
        grad = torch.ops.aten.leaky_relu_backward(grad, y, SLOPE, True)
        grad = _depthwise(grad @ pointwise, depthwise.flip(2, 3))
        if scale is None:
            return grad, None, None, None, None, None
        to_scale = (grad * x).sum((1, 2))
        return grad.mul_(scale[:, None, None, :]), to_scale, None, None, None, None


class InverseWavelet(torch.autograd.Function):
    """The inverse Haar transform, doubled, of scaled features: an orthogonal map, whose transpose is the transform.

    The channels are four sub-bands one after the other: averages, details along rows, columns, both.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        """x [n, a, b, 4 C], scale [n, 4 C] -> [n, 2 a, 2 b, C]."""
        ctx.save_for_backward(x, scale)
        low, rows, columns, both = (x * scale[:, None, None, :]).chunk(4, dim=-1)
        n, height, width, count = low.shape
        made = x.new_empty(n, height, 2, width, 2, count)
        plus, other = low + rows, columns + both
        torch.add(plus, other, out=made[:, :, 0, :, 0])
        torch.sub(plus, other, out=made[:, :, 0, :, 1])
        plus, other = low - rows, columns - both
        torch.add(plus, other, out=made[:, :, 1, :, 0])
        torch.sub(plus, other, out=made[:, :, 1, :, 1])
        return made.view(n, 2 * height, 2 * width, count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        n, height, width, channels = x.shape
        grad = grad.contiguous().view(n, height, 2, width, 2, channels // 4)
        first, second, third, fourth = (grad[:, :, i, :, j] for i in (0, 1) for j in (0, 1))
        made = torch.empty_like(x)
        low, rows, columns, both = made.chunk(4, dim=-1)
        top, bottom = first + second, third + fourth
        torch.add(top, bottom, out=low)
        torch.sub(top, bottom, out=rows)
        top, bottom = first - second, third - fourth
        torch.add(top, bottom, out=columns)
        torch.sub(top, bottom, out=both)
        to_scale = (made * x).sum((1, 2))
        return made.mul_(scale[:, None, None, :]), to_scale


def _depthwise(x: Tensor, kernel: Tensor) -> Tensor:
    """x [n, a, b, C], kernel [C, 1, 3, 3], padded by zeros."""
    moved = functional.conv2d(x.permute(0, 3, 1, 2), kernel, padding=1, groups=len(kernel))
    return moved.permute(0, 2, 3, 1)
