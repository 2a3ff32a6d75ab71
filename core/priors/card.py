"""prior.json, the card of a prior's network: its configuration, declared and checked once. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from smoothsweep.core.cards.network_card import NetworkCard, read_network_card
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
            require_count(f"stylegan2: {name}", getattr(self, name), least, most)
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


@dataclass(frozen=True, kw_only=True)
class EigenfacesConfig:
    """resolution: side length in pixels; components: number of principal components (= z_dim = w_dim)."""

    resolution: int
    components: int

    def __post_init__(self) -> None:
        require_count("eigenfaces: resolution", self.resolution, 1, 4096)
        require_count("eigenfaces: components", self.components, 1, 2**20)

    num_ws: ClassVar[int] = 1

    @property
    def z_dim(self) -> int:
        return self.components

    w_dim = z_dim


@dataclass(frozen=True, kw_only=True)
class MobileStyleGANConfig:
    """MobileStyleGAN (arXiv 2104.04767), or its first stages with a read-out of its own.

    channels: of the features of side 4, 8, 16, ...; the image has twice the side of the last. head: outputs of the
    last convolution, None for as many as the last channels. frame: the square that is shown, (left, top, side) as
    fractions of the whole image's side; None: all of it. size: side in pixels of what is made of the frame, None: as
    many as it has.
    """

    channels: tuple[int, ...]
    head: int | None = None
    z_dim: int = 512
    w_dim: int = 512
    mapping_layers: int = 8
    frame: tuple[float, float, float] | None = None
    size: int | None = None

    num_ws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name, least, most in (("z_dim", 1, 2**14), ("w_dim", 1, 2**14), ("mapping_layers", 1, 64)):
            require_count(f"mobilestylegan: {name}", getattr(self, name), least, most)
        given = self.channels
        if not isinstance(given, list | tuple) or not 2 <= len(given) <= 10:
            raise InputError(f"mobilestylegan: channels: expected 2 to 10 numbers, got {given!r}")
        for count in given:
            require_count("mobilestylegan: channels", count, 4, 2**12)
            if count % 4:
                raise InputError(f"mobilestylegan: channels: expected multiples of 4, got {count}")
        object.__setattr__(self, "channels", tuple(given))  # JSON has lists
        if self.head is not None:
            require_count("mobilestylegan: head", self.head, 1, 2**12)
        if self.size is not None:
            require_count("mobilestylegan: size", self.size, 8, 4096)
        if self.frame is not None:
            self._check_frame(self.frame)

    def _check_frame(self, frame: object) -> None:
        if not isinstance(frame, list | tuple) or len(frame) != 3:
            raise InputError(f"mobilestylegan: frame: expected left, top and side, got {frame!r}")
        for number in frame:
            require_number("mobilestylegan: frame", number, 0, 1)
        left, top, side = frame
        if not side > 0 or max(left, top) + side > 1 + 1e-9:
            raise InputError(f"mobilestylegan: frame: expected a square within the image, got {list(frame)}")
        object.__setattr__(self, "frame", (float(left), float(top), float(side)))

    @property
    def whole(self) -> int:
        """Side in pixels of the whole image."""
        return 4 * 2 ** len(self.channels)

    @property
    def resolution(self) -> int:
        """Side in pixels of what is made."""
        if self.size is not None:
            return self.size
        return self.whole if self.frame is None else max(8, round(self.frame[2] * self.whole))


CONFIGS: dict[str, type] = {
    "eigenfaces": EigenfacesConfig,
    "stylegan2": StyleGAN2Config,
    "mobilestylegan": MobileStyleGANConfig,
}
"""The configuration of a prior's network, by the kind that its card names."""


def read_prior_card(path: Path) -> NetworkCard:
    """The checked card. Raises InputError, one line naming the file and the key."""
    return read_network_card(path, CONFIGS, "the JSON description of a prior")
