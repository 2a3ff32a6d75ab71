"""What generator and discriminator share: the configuration and the fully connected layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.errors import InputError
from core.priors.base import check_whole
from core.priors.stylegan2_ops import bias_act

_RANGES = (
    ("resolution", 8, 4096), ("z_dim", 1, 2**14), ("w_dim", 1, 2**14), ("mapping_layers", 1, 64),
    ("channel_base", 8, 2**20), ("channel_max", 1, 2**14),
)  # fmt: skip
"""The least and most that a description may ask for; what is published reaches an eighth of it."""


@dataclass(frozen=True, kw_only=True)
class StyleGAN2Config:
    """An unconditional StyleGAN2 pair: skip generator, residual discriminator (arXiv 1912.04958).

    resolution: side length R, a power of two >= 8. channel_base, channel_max: channels at side r are
    min(channel_base // r, channel_max). conv_clamp: activations are clamped to +- this (None: never), in
    fp32 too, because networks trained with a clamp rely on it. mbstd_group: images per minibatch-std group
    of the discriminator, None for the whole batch. The defaults are the official ones for 1024 pixels.
    """

    resolution: int = 1024
    z_dim: int = 512
    w_dim: int = 512
    mapping_layers: int = 8
    channel_base: int = 32768
    channel_max: int = 512
    conv_clamp: float | None = None
    mbstd_group: int | None = 4

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            check_whole(f"stylegan2: {name}", getattr(self, name), least, most)
        if self.resolution & (self.resolution - 1):
            raise InputError(f"stylegan2: resolution: expected a power of two >= 8, got {self.resolution}")
        if self.channel_base < self.resolution:
            expected = f"expected at least {self.resolution}"
            raise InputError(f"stylegan2: channel_base: {expected}, got {self.channel_base}")
        if self.mbstd_group is not None:
            check_whole("stylegan2: mbstd_group", self.mbstd_group, 1, 2**20)
        clamp = self.conv_clamp
        if clamp is not None and not (type(clamp) in (int, float) and 0 < clamp < math.inf):
            raise InputError(f"stylegan2: conv_clamp: expected None or a number > 0, got {clamp}")

    @property
    def num_ws(self) -> int:
        return 2 * int(math.log2(self.resolution)) - 2

    @property
    def sides(self) -> tuple[int, ...]:
        """4, 8, ..., resolution."""
        return tuple(2**power for power in range(2, int(math.log2(self.resolution)) + 1))

    def channels(self, side: int) -> int:
        return min(self.channel_base // side, self.channel_max)


class FullyConnected(nn.Module):
    """x [..., inputs] -> [..., outputs] with a weight scaled at run time (equalised learning rate).

    Stored weights are 1 / `learning_rate` too large, and both weight and bias are multiplied by it when used.
    """

    def __init__(
        self, inputs: int, outputs: int, *, lrelu: bool = False, learning_rate: float = 1.0, bias: float = 0.0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.full((outputs,), bias))
        self.lrelu = lrelu
        self.learning_rate = learning_rate

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * (self.learning_rate / math.sqrt(self.weight.shape[1]))
        bias = self.bias * self.learning_rate
        if self.lrelu:
            return bias_act(x @ weight.T, bias)
        return torch.addmm(bias, x, weight.T)


def initialise(network: nn.Module, seed: int) -> None:
    """Fill every parameter and noise map of a new network from one seeded stream, in state-dict order.

    Weights, the constant input and the noise maps are N(0, 1), mapping weights N(0, 1) / 0.01. Biases keep
    their constructor's value, noise strengths and the mean of w stay 0.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = dict(network.named_modules())
    with torch.no_grad():
        for name, tensor in network.state_dict(keep_vars=True).items():
            if tensor.is_meta:
                return  # a skeleton that is only asked for its shapes
            owner, _, leaf = name.rpartition(".")
            if leaf in ("weight", "const", "noise_const"):
                scale = 1 / getattr(layers[owner], "learning_rate", 1.0)
                tensor.copy_(torch.randn(tensor.shape, generator=generator, device="cpu") * scale)
