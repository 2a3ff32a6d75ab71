"""MobileStyleGAN as a prior: z -> w -> image, a mapping network and a synthesis network of plain layers.

Source: arXiv 2104.04767, sections 3.1 to 3.3; the arithmetic is that of the graph in the package `random-face`
2021.7.21.1, in which the demodulation is a constant, folded into the pointwise weights. The numbers of the layers are
buffers: they come from a file. Features lie as [n, height, width, channels], so that a pointwise convolution is one
product of matrices; the two steps of a stage have a backward pass of their own, without gradients of weights.

Of a frame only the part of the features is computed that it depends on. Every convolution reaches one pixel further, so
the part grows by two pixels within a stage and halves from a stage to the one before it. Outside the image lie zeros,
as without windows; at the other edges of a window they would be wrong and reach two pixels inwards, which the margin
holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from smoothsweep.core.priors.base import PriorNetwork, spread_over_places, truncate
from smoothsweep.core.priors.settings import MobileStyleGANConfig

MARGIN = 2
"""Pixels that two 3x3 convolutions reach."""


@dataclass(frozen=True)
class Window:
    """Rows and columns from a first one to before a last one, of an image of `side` pixels."""

    side: int
    top: int
    bottom: int
    left: int
    right: int

    def of(self, x: Tensor) -> Tensor:
        """Cut this window out of x [side, side, C]."""
        return x[self.top : self.bottom, self.left : self.right]

    def within(self, outer: Window, x: Tensor) -> Tensor:
        """Cut this window out of x [n, a, b, C], which covers `outer`."""
        rows = slice(self.top - outer.top, self.bottom - outer.top)
        return x[:, rows, self.left - outer.left : self.right - outer.left]

    def before(self, margin: int = 0) -> Window:
        """The window of the features at half the side from which this window, widened by a margin, is computed."""
        side = self.side // 2
        first = [max(0, (edge - margin) // 2) for edge in (self.top, self.left)]
        last = [min(side, -((-edge - margin) // 2)) for edge in (self.bottom, self.right)]
        return Window(side, first[0], last[0], first[1], last[1])

    @property
    def doubled(self) -> Window:
        """The same window at twice the side."""
        return Window(2 * self.side, 2 * self.top, 2 * self.bottom, 2 * self.left, 2 * self.right)


def whole(side: int) -> Window:
    """The window that covers a whole image."""
    return Window(side, 0, side, 0, side)


def stage_windows(window: Window, stages: int) -> list[tuple[Window, Window]]:
    """Windows of every stage, first to last: the one that it computes, and the correct part of it that is needed.

    window: the part of the picture to compute, of twice the side of the last stage.
    """
    windows, needed = [], window.before()
    for _ in range(stages):
        below = needed.before(MARGIN)
        windows.append((below.doubled, needed))
        needed = below
    return windows[::-1]


def sampling(side: int, start: float, length: float, size: int) -> tuple[Tensor, int, int]:
    """Resample `length` pixels from `start` on, of `side` pixels, to `size`.

    Returns weights float32 [size, last - first], and first and last of the pixels that count. Linear between
    neighbours, averaging where it shrinks: the triangle filter, by which Pillow and torch resize with antialiasing.
    """
    scale = length / size
    reach = max(1.0, scale)
    centres = start + (np.arange(size) + 0.5) * scale - 0.5
    weights = np.clip(1 - np.abs(np.arange(side) - centres[:, None]) / reach, 0, None)
    weights /= weights.sum(axis=1, keepdims=True)
    used = np.flatnonzero(weights.sum(axis=0))
    first, last = int(used[0]), int(used[-1]) + 1
    return torch.from_numpy(weights[:, first:last].astype(np.float32)), first, last


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


class Numbers(nn.Module):
    """A layer whose numbers are buffers."""

    def keep(self, **shapes: tuple[int, ...]) -> None:
        """Add buffers of these shapes, filled with zeros."""
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))


class Affine(Numbers):
    """x [n, inputs] -> [n, outputs]; of w, the scales of the channels, any constant gain folded in."""

    weight: Tensor
    bias: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.keep(weight=(outputs, inputs), bias=(outputs,))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class First(Numbers):
    """The learned input of side 4, scaled by the style, and a full 3x3 convolution of it."""

    pointwise: Tensor
    noise: Tensor
    bias: Tensor
    constant: Tensor

    def __init__(self, channels: int, w_dim: int) -> None:
        super().__init__()
        self.style = Affine(w_dim, channels)
        self.keep(constant=(1, channels, 4, 4), pointwise=(channels, channels, 3, 3))
        self.keep(noise=(4, 4, 1), bias=(channels,))

    def forward(self, w: Tensor) -> Tensor:
        """w [n, w_dim] -> features [n, 4, 4, C]."""
        x = self.constant * self.style(w)[:, :, None, None]
        x = functional.conv2d(x, self.pointwise, self.bias, padding=1).permute(0, 2, 3, 1)
        return functional.leaky_relu(x + self.noise, SLOPE).contiguous()


class StyledConv(Numbers):
    """Depthwise 3x3, pointwise, noise, bias, leaky ReLU; style: what scales the channels of its input."""

    depthwise: Tensor
    pointwise: Tensor
    noise: Tensor
    bias: Tensor

    def __init__(self, inputs: int, outputs: int, *, side: int, w_dim: int) -> None:
        super().__init__()
        self.style = Affine(w_dim, inputs)
        self.keep(depthwise=(inputs, 1, 3, 3), pointwise=(outputs, inputs))
        self.keep(noise=(side, side, 1), bias=(outputs,))

    def forward(self, x: Tensor, scale: Tensor | None, window: Window) -> Tensor:
        """x [n, a, b, inputs], the part of the features in `window`; scale [n, inputs] or None."""
        noise = window.of(self.noise)
        return StyledConvolution.apply(x, scale, self.depthwise, self.pointwise, self.bias, noise)


class Stage(nn.Module):
    """Doubles the side by the inverse wavelet, then two styled convolutions."""

    def __init__(self, inputs: int, between: int, outputs: int, *, side: int, w_dim: int) -> None:
        super().__init__()
        self.up = Affine(w_dim, inputs)
        self.conv1 = StyledConv(inputs // 4, between, side=side, w_dim=w_dim)
        self.conv2 = StyledConv(between, outputs, side=side, w_dim=w_dim)

    def between(self, x: Tensor, w: Tensor, window: Window) -> Tensor:
        """x [n, a, b, inputs], w [n, w_dim] -> what the second convolution reads, [n, 2 a, 2 b, between]."""
        # A scale for each channel after the wavelet is one for all of its four sub-bands before it; 1/2: see there.
        scale = self.up(w) * self.conv1.style(w).repeat(1, 4) / 2
        return self.conv1(InverseWavelet.apply(x, scale), None, window)

    def forward(self, x: Tensor, w: Tensor, window: Window) -> Tensor:
        """x [n, a, b, inputs], the part that `window` of the doubled side stands on -> [n, 2 a, 2 b, outputs]."""
        return self.conv2(self.between(x, w, window), self.conv2.style(w), window)


class ToImage(Numbers):
    """Features of side s -> the picture of side 2 s: a styled pointwise convolution to wavelets, and their inverse."""

    weight: Tensor
    bias: Tensor

    def __init__(self, inputs: int, w_dim: int) -> None:
        super().__init__()
        self.style = Affine(w_dim, inputs)
        self.keep(weight=(12, inputs), bias=(12,))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        """x [n, a, b, inputs] -> [n, 3, 2 a, 2 b]."""
        weight = self.weight * self.style(w)[:, None, :]  # the scale costs less here than on the features
        n, height, width, _ = x.shape
        bands = torch.baddbmm(self.bias, x.reshape(n, height * width, -1), weight.transpose(1, 2))
        half = bands.new_full((1, 12), 0.5)
        return InverseWavelet.apply(bands.view(n, height, width, 12), half).permute(0, 3, 1, 2)


GAIN = 2**0.5
EPSILON = 1e-8
AT_ONCE = 2**21
"""Numbers of the largest features that images computed together have on a CPU: they stay in its cache."""


class Mapping(Numbers):
    """z -> w: to unit mean square, then fully connected layers with a leaky ReLU. mean: of w over draws of z."""

    mean: Tensor

    def __init__(self, config: MobileStyleGANConfig) -> None:
        super().__init__()
        sizes = [config.z_dim, *[config.w_dim] * config.mapping_layers]
        self.layers = nn.ModuleList([Affine(*pair) for pair in pairwise(sizes)])
        self.keep(mean=(config.w_dim,))

    def forward(self, z: Tensor) -> Tensor:
        """z [n, z_dim] -> w float32 [n, w_dim]."""
        x = z.to(device=self.mean.device, dtype=torch.float32)
        x = x * (x.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        for layer in self.layers:
            x = functional.leaky_relu(layer(x), SLOPE) * GAIN
        return x


class MobileStyleGAN(PriorNetwork):
    """The generator, of as many stages as its configuration names channels for, and the frame of what it shows."""

    mapping_slope: ClassVar[float | None] = SLOPE

    def __init__(self, config: MobileStyleGANConfig) -> None:
        super().__init__(config)
        channels, last = config.channels, len(config.channels) - 2
        self.mapping = Mapping(config)
        self.first = First(channels[0], config.w_dim)
        self.stages = nn.ModuleList()
        for index, (inputs, between) in enumerate(pairwise(channels)):
            outputs = config.head if index == last and config.head is not None else between
            self.stages.append(Stage(inputs, between, outputs, side=8 * 2**index, w_dim=config.w_dim))
        self.to_image = ToImage(config.head or channels[-1], config.w_dim)
        self._windows, self._sampled = self._planned(config)
        widths = [*channels[1:-1], max(channels[-1], config.head or 0)]
        numbers = max(
            (window.bottom - window.top) * (window.right - window.left) * width
            for (window, _), width in zip(self._windows, widths, strict=True)
        )
        self._at_once = max(1, AT_ONCE // numbers)

    def _planned(self, config: MobileStyleGANConfig) -> tuple[list[tuple[Window, Window]], bool]:
        """Which parts of the features count; rows and columns of the frame become buffers that no file holds."""
        window, sampled = whole(config.whole), config.frame is not None or config.resolution != config.whole
        if sampled:
            left, top, side = (number * config.whole for number in config.frame or (0.0, 0.0, 1.0))
            rows, first, last = sampling(config.whole, top, side, config.resolution)
            columns, start, end = sampling(config.whole, left, side, config.resolution)
            self.register_buffer("rows", rows, persistent=False)
            self.register_buffer("columns", columns, persistent=False)
            window = Window(config.whole, first, last, start, end)
        self._shown = window
        return stage_windows(window, len(config.channels) - 1), sampled

    @property
    def every_stage(self) -> list[Stage]:
        """The stages in their order."""
        return cast("list[Stage]", list(self.stages))

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """As `Prior.map`."""
        return truncate(self.mapping(z)[:, None, :], self.mapping.mean, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """As `Prior.synthesize`."""
        w = spread_over_places(w, num_ws=1, w_dim=self.w_dim)[:, 0]
        if w.device.type != "cpu" or len(w) <= self._at_once:
            return self._made(w)
        return torch.cat([self._made(some) for some in w.split(self._at_once)])

    def features(self, w: Tensor, stages: int) -> Tensor:
        """w [n, w_dim] -> the features after so many stages [n, s, s, C], those in the frame's window."""
        x = self.first(w)
        part = whole(4)
        for stage, (computed, needed) in zip(self.every_stage[:stages], self._windows, strict=False):
            x = stage(computed.before().within(part, x), w, computed)
            x, part = needed.within(computed, x), needed
        return x

    def _made(self, w: Tensor) -> Tensor:
        picture = self.to_image(self.features(w, len(self.stages)), w)
        if not self._sampled:
            return picture
        have = self._windows[-1][1].doubled
        rows = slice(self._shown.top - have.top, self._shown.bottom - have.top)
        picture = picture[:, :, rows, self._shown.left - have.left : self._shown.right - have.left]
        return self.rows @ picture @ self.columns.T
