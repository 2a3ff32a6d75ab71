"""The residual StyleGAN2 discriminator, with the official state-dict keys.

Source of the behaviour: `NVlabs/stylegan2-ada-pytorch`, training/networks.py, at fp32. The only keys it
has that ours lack are the constant `resample_filter` buffers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from smoothsweep.core.devices import channels_last
from smoothsweep.core.priors.stylegan2_layers import FullyConnected, initialise
from smoothsweep.core.priors.stylegan2_ops import EPSILON, bias_act, conv2d_resampled, fir_kernel
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config


class ConvLayer(nn.Module):
    """Convolution, optionally halving the image, then leaky ReLU times gain, then clamp.

    A skip layer (`skip=True`) has no bias, activation or clamp.
    """

    def __init__(
        self,
        config: StyleGAN2Config,
        *,
        inputs: int,
        outputs: int,
        side: int,
        down: int = 1,
        gain: float = 1.0,
        skip: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, side, side))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", None if skip else nn.Parameter(torch.zeros(outputs)))
        self.down = down
        self.gain = gain if skip else gain * math.sqrt(2)
        self.clamp = None if config.conv_clamp is None else config.conv_clamp * gain

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        # The gain precedes the positively homogeneous activation, inside the weight, where it costs nothing.
        weight = self.weight * (self.gain / math.sqrt(self.weight[0].numel()))
        if self.bias is None:
            return conv2d_resampled(x, weight, kernel, down=self.down)
        y = conv2d_resampled(x, weight, kernel, down=self.down, bias=self.bias * self.gain)
        return bias_act(y, None, gain=1.0, clamp=self.clamp)


class DiscriminatorBlock(nn.Module):
    """[N, C(r), r, r] -> [N, C(r/2), r/2, r/2]; the first block starts from RGB."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        width, narrower = config.channels(side), config.channels(side // 2)
        half = math.sqrt(0.5)
        if side == config.resolution:
            self.fromrgb = ConvLayer(config, inputs=3, outputs=width, side=1)
        self.conv0 = ConvLayer(config, inputs=width, outputs=width, side=3)
        self.conv1 = ConvLayer(config, inputs=width, outputs=narrower, side=3, down=2, gain=half)
        self.skip = ConvLayer(config, inputs=width, outputs=narrower, side=1, down=2, gain=half, skip=True)

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        if hasattr(self, "fromrgb"):
            x = self.fromrgb(x, kernel)
        return self.skip(x, kernel) + self.conv1(self.conv0(x, kernel), kernel)


class Epilogue(nn.Module):
    """[N, C, 4, 4] -> logits [N, 1], with one channel that tells how varied the batch is."""

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        width = config.channels(4)
        self.group = config.mbstd_group
        self.conv = ConvLayer(config, inputs=width + 1, outputs=width, side=3)
        self.fc = FullyConnected(width * 16, width, lrelu=True)
        self.out = FullyConnected(width, 1)

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        x = torch.cat([x, minibatch_deviation(x, self.group)], dim=1)
        return self.out(self.fc(self.conv(x, kernel).flatten(1)))


def minibatch_deviation(x: Tensor, group: int | None) -> Tensor:
    """x [N, C, H, W] -> [N, 1, H, W]: standard deviation over each group of images, averaged over C, H, W.

    With G = min(group, N), image n belongs to group n mod (N / G), so a logit depends on its companions.
    Raises ValueError if G does not divide N.
    """
    n, _, height, width = x.shape
    size = n if group is None else min(group, n)
    if n % size:
        raise ValueError(f"batch of {n} images: expected a multiple of the minibatch-std group {size}")
    grouped = x.reshape(size, n // size, *x.shape[1:])
    deviation = (grouped.var(dim=0, correction=0) + EPSILON).sqrt().mean(dim=(1, 2, 3))
    return deviation.repeat(size)[:, None, None, None].expand(-1, 1, height, width)


class StyleGAN2Discriminator(nn.Module):
    """images [N, 3, R, R] -> realness logits [N, 1]. N must be a multiple of min(mbstd_group, N)."""

    kernel: Tensor

    def __init__(self, config: StyleGAN2Config, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("kernel", fir_kernel(), persistent=False)
        for side in reversed(config.sides[1:]):
            self.add_module(f"b{side}", DiscriminatorBlock(config, side=side))
        self.b4 = Epilogue(config)
        initialise(self, seed)
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        x = images.contiguous(memory_format=torch.channels_last)
        for side in reversed(self.config.sides[1:]):
            x = self.get_submodule(f"b{side}")(x, self.kernel)
        return self.b4(x, self.kernel)
