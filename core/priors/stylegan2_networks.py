"""The two networks of StyleGAN2. Their state-dict keys are the official ones: converted networks need no renaming.

Source of the behaviour: `NVlabs/stylegan2-ada-pytorch`, training/networks.py, at fp32. The only keys it has
that ours lack are the constant `resample_filter` buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from smoothsweep.core.priors.stylegan2_layers import FullyConnected
from smoothsweep.core.priors.stylegan2_ops import EPSILON, bias_act, fir_kernel, modulated_conv2d, upsample2d
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

MAPPING_LEARNING_RATE = 0.01

Noise = Literal["const", "none"] | Sequence[Tensor]
"""The stored maps, no noise at all, or one tensor [N, 1, r, r] per 3x3 layer, from coarse to fine."""

ModulatedConv = Callable[..., Tensor]
"""`modulated_conv2d` or another function of the same signature."""


class MappingNetwork(nn.Module):
    """z -> w: normalise to unit mean square, then `mapping_layers` fully connected layers."""

    w_avg: Tensor

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("w_avg", torch.zeros(config.w_dim))
        for index in range(config.mapping_layers):
            inputs = config.z_dim if index == 0 else config.w_dim
            layer = FullyConnected(inputs, config.w_dim, lrelu=True, learning_rate=MAPPING_LEARNING_RATE)
            self.add_module(f"fc{index}", layer)

    def forward(self, z: Tensor) -> Tensor:
        """z [N, z_dim], any float type -> w float32 [N, w_dim]."""
        x = z.to(device=self.w_avg.device, dtype=torch.float32)
        x = x * (x.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        for index in range(self.config.mapping_layers):
            x = self.get_submodule(f"fc{index}")(x)
        return x


class SynthesisLayer(nn.Module):
    """Modulated 3x3 convolution, noise, bias, leaky ReLU."""

    noise_const: Tensor

    def __init__(self, config: StyleGAN2Config, *, inputs: int, side: int, up: int) -> None:
        super().__init__()
        outputs = config.channels(side)
        self.up = up
        self.clamp = config.conv_clamp
        self.affine = FullyConnected(config.w_dim, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.noise_strength = nn.Parameter(torch.zeros(()))
        self.register_buffer("noise_const", torch.empty(side, side))

    def forward(
        self, x: Tensor, w: Tensor, kernel: Tensor, noise: Tensor | None, modulated_conv: ModulatedConv
    ) -> Tensor:
        # The activation is positively homogeneous, so its gain moves ahead of it, where it costs nothing.
        gain = math.sqrt(2)
        y = modulated_conv(x, self.weight, self.affine(w), kernel, up=self.up, gain=gain)
        shift = self.bias[:, None, None] * gain
        if noise is not None:
            shift = shift + noise * (self.noise_strength * gain)
        return bias_act(y + shift, None, gain=1.0, clamp=self.clamp)


class ToRGB(nn.Module):
    """Modulated 1x1 convolution to three channels, without demodulation or activation."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        inputs = config.channels(side)
        self.clamp = config.conv_clamp
        self.affine = FullyConnected(config.w_dim, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.empty(3, inputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor, w: Tensor, kernel: Tensor, modulated_conv: ModulatedConv) -> Tensor:
        style = self.affine(w) / math.sqrt(self.weight.shape[1])
        y = modulated_conv(x, self.weight, style, kernel, demodulate=False)
        return bias_act(y, self.bias, lrelu=False, gain=1.0, clamp=self.clamp)


class SynthesisBlock(nn.Module):
    """One resolution. The first block starts from the learned constant and has no conv0."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        width = config.channels(side)
        if side == 4:
            self.const = nn.Parameter(torch.empty(width, 4, 4))
        else:
            self.conv0 = SynthesisLayer(config, inputs=config.channels(side // 2), side=side, up=2)
        self.conv1 = SynthesisLayer(config, inputs=width, side=side, up=1)
        self.torgb = ToRGB(config, side=side)


class SynthesisNetwork(nn.Module):
    """w -> images: blocks of rising resolution whose RGB outputs are upsampled and summed."""

    kernel: Tensor

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("kernel", fir_kernel(), persistent=False)
        for side in config.sides:
            self.add_module(f"b{side}", SynthesisBlock(config, side=side))

    def forward(self, ws: Tensor, noise: Noise = "const", modulated_conv: ModulatedConv = modulated_conv2d) -> Tensor:
        """ws [N, num_ws, w_dim] -> images [N, 3, R, R]; `modulated_conv` is the form of the convolution."""
        places = iter(ws.unbind(dim=1))
        maps = self._noise_maps(noise)
        block = self.block(4)
        x = block.const.expand(len(ws), -1, -1, -1)
        x = block.conv1(x, next(places), self.kernel, next(maps), modulated_conv)
        w = next(places)
        image = block.torgb(x, w, self.kernel, modulated_conv)
        for side in self.config.sides[1:]:
            block = self.block(side)
            # A block's torgb and the next block's conv0 share one w.
            x = block.conv0(x, w, self.kernel, next(maps), modulated_conv)
            x = block.conv1(x, next(places), self.kernel, next(maps), modulated_conv)
            w = next(places)
            image = upsample2d(image, self.kernel) + block.torgb(x, w, self.kernel, modulated_conv)
        return image

    def block(self, side: int) -> SynthesisBlock:
        """The block of a resolution."""
        return getattr(self, f"b{side}")

    def noise_layers(self) -> list[SynthesisLayer]:
        """The layers that add noise, from coarse to fine."""
        return [layer for layer in self.modules() if isinstance(layer, SynthesisLayer)]

    def _noise_maps(self, noise: Noise) -> Iterator[Tensor | None]:
        layers = self.noise_layers()
        if noise == "const":
            return iter([layer.noise_const for layer in layers])
        if noise == "none":
            return iter([None] * len(layers))
        if isinstance(noise, str) or len(noise) != len(layers):
            raise ValueError(f"noise: expected 'const', 'none' or {len(layers)} tensors, got {noise!r}")
        return iter(noise)
