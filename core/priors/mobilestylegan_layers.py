"""The layers of MobileStyleGAN. Their numbers are buffers: they come from a file.

Source: arXiv 2104.04767, sections 3.1 to 3.3; the arithmetic is that of the graph in the package `random-face`
2021.7.21.1, in which the demodulation is a constant, folded into the pointwise weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.priors.mobilestylegan_fused import SLOPE, InverseWavelet, StyledConvolution
from smoothsweep.core.priors.mobilestylegan_windows import Window


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
