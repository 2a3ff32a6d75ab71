"""What PLG-MI's networks are built from. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from smoothsweep.core.bounds import Channels, Outputs, Width
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields

SIDES = (16, 32, 64)
"""Sides in pixels that the networks can have; the official ones have 64."""


@dataclass(frozen=True, kw_only=True)
class ConditionalConfig:
    """A conditional GAN pair: 4x4 pixels doubled to `resolution`, channels halved on the way down to `width`.

    The official networks (LetheSec/PLG-MI-Attack, models/generators/resnet64.py and
    models/discriminators/snresnet64.py) are resolution 64, z_dim 128, width 64.

    Attributes:
        classes: C, the target's classes.
        z_dim: Numbers in a latent.
        output: What the generator's tanh is taken for: "signed", an image in [-1, 1]; "unit", an image in [0, 1], so
            that its negative half is no image.
    """

    classes: Outputs
    resolution: int = 64
    z_dim: Width = 128
    width: Channels = 64
    output: Literal["signed", "unit"] = "signed"

    def __post_init__(self) -> None:
        check_fields(self, "conditional gan: ")
        require(self.resolution in SIDES, "conditional gan: resolution", "16, 32 or 64", self.resolution)

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of the generator at 4, 8, ... `resolution` pixels; the discriminator has them in reverse."""
        doublings = (self.resolution // 4).bit_length() - 1
        return tuple(self.width * 2**power for power in range(doublings, -1, -1))
