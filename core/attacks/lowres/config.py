"""What the networks of GMI, KED-MI and LOMMA are built from. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from core.checks import require, require_count

SIDES = (32, 64)
"""Sides in pixels that the networks can have; the official ones have 64."""


@dataclass(frozen=True, kw_only=True)
class PlainGanConfig:
    """A GAN pair: 4x4 pixels doubled to `resolution`, channels halved on the way down to `width`.

    The official networks (generator.py and discri.py of AI-secure/GMI-Attack, SCccc21/Knowledge-Enriched-DMI and
    sutd-visual-computing-group/Re-thinking_MI) are resolution 64, z_dim 100, width 64. classes: outputs of KED-MI's
    discriminator, those of the target; 0 where there is none.
    """

    resolution: int = 64
    z_dim: int = 100
    width: int = 64
    classes: int = 0

    def __post_init__(self) -> None:
        require(self.resolution in SIDES, "plain gan: resolution", "32 or 64", self.resolution)
        require_count("plain gan: z_dim", self.z_dim, 1, 2**14)
        require_count("plain gan: width", self.width, 1, 2**12)
        require_count("plain gan: classes", self.classes, 0, 2**20)

    @property
    def channels(self) -> tuple[int, ...]:
        """At half of `resolution`, a quarter, ... and 4 pixels."""
        halvings = (self.resolution // 4).bit_length() - 1
        return tuple(self.width * 2**power for power in range(halvings))
