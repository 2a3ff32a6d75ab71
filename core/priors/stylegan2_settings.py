"""Settings of StyleGAN2 that planning reads: its networks and their training. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothsweep.core.checks import require_count, require_number
from smoothsweep.core.errors import InputError

_RANGES = (
    ("resolution", 8, 4096),
    ("z_dim", 1, 2**14),
    ("w_dim", 1, 2**14),
    ("mapping_layers", 1, 64),
    ("channel_base", 8, 2**20),
    ("channel_max", 1, 2**14),
)
"""The least and most that a description may ask for; what is published reaches an eighth of it."""


@dataclass(frozen=True, kw_only=True)
class StyleGAN2Config:
    """An unconditional StyleGAN2 pair: skip generator, residual discriminator (arXiv 1912.04958).

    Attributes:
        resolution: Side length R, a power of two >= 8.
        channel_base, channel_max: Channels at side r are min(channel_base // r, channel_max).
        conv_clamp: Activations are clamped to +- this (None: never), in fp32 too, because networks trained with a clamp
            rely on it.
        mbstd_group: Images per minibatch-std group of the discriminator, None for the whole batch. The defaults are the
            official ones for 1024 pixels.
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
        for name, minimum, maximum in _RANGES:
            require_count(f"stylegan2: {name}", getattr(self, name), minimum, maximum)
        if self.resolution & (self.resolution - 1):
            raise InputError(f"stylegan2: resolution: expected a power of two >= 8, got {self.resolution}")
        if self.channel_base < self.resolution:
            expected = f"expected at least {self.resolution}"
            raise InputError(f"stylegan2: channel_base: {expected}, got {self.channel_base}")
        if self.mbstd_group is not None:
            require_count("stylegan2: mbstd_group", self.mbstd_group, 1, 2**20)
        if self.conv_clamp is not None:
            require_number("stylegan2: conv_clamp", self.conv_clamp, 0, above=True)
            object.__setattr__(self, "conv_clamp", float(self.conv_clamp))  # 256 and 256.0 are one network

    @property
    def num_ws(self) -> int:
        return 2 * int(math.log2(self.resolution)) - 2

    @property
    def sides(self) -> tuple[int, ...]:
        """4, 8, ..., resolution."""
        return tuple(2**power for power in range(2, int(math.log2(self.resolution)) + 1))

    def channels(self, side: int) -> int:
        return min(self.channel_base // side, self.channel_max)
