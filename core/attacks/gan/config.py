"""What the GANs of GMI, KED-MI and LOMMA are built from, and how they are trained. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.attacks.shared.base import Importable
from smoothsweep.core.bounds import Beta, Channels, Count, Positive, Seed, Width
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields

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
    z_dim: Width = 100
    width: Channels = 64
    classes: Annotated[int, Ge(0), Le(2**20)] = 0

    def __post_init__(self) -> None:
        require(self.resolution in SIDES, "plain gan: resolution", "32 or 64", self.resolution)
        check_fields(self, "plain gan: ")

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels at half of `resolution`, a quarter, ... and 4 pixels."""
        halvings = (self.resolution // 4).bit_length() - 1
        return tuple(self.width * 2**power for power in range(halvings))


@dataclass(frozen=True, kw_only=True)
class GanTraining(Importable):
    """How such a pair is trained on public images, or the folder of one that is trained already.

    Attributes:
        width: Channels of the largest feature map; the official networks have 64.
        epochs: Passes over the public images, without what is left of a last batch.
        batch_size: Images of a step.
        critic_steps: Steps of the discriminator for each of the generator.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        z_dim: Numbers in a latent; the official networks have 100.
        seed: Seed of first weights and draws.
    """

    width: Channels = 64
    epochs: Count = 120
    batch_size: Annotated[Count, Ge(2)] = 64
    critic_steps: Count = 5
    lr: Positive = 2e-4
    betas: tuple[Beta, Beta] = (0.5, 0.999)
    z_dim: Width = 100
    seed: Seed = 0

    def __post_init__(self) -> None:
        self.check_workers("attack.gan")

    def steps(self, public: int) -> int:
        """Steps of the discriminator with so many public images. Raises InputError for less than a batch of them."""
        require(
            public >= self.batch_size, "public", f"at least attack.gan.batch_size ({self.batch_size}) images", public
        )
        return self.epochs * (public // self.batch_size)
