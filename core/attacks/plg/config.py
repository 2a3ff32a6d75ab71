"""What PLG-MI's networks are built from, and how they are trained. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from smoothsweep.core.attacks.importable import Importable
from smoothsweep.core.attacks.ppa.config import LOSSES, Loss
from smoothsweep.core.checks import require, require_choice, require_count, require_number, require_seed

SIDES = (16, 32, 64)
"""Sides in pixels that the networks can have; the official ones have 64."""


@dataclass(frozen=True, kw_only=True)
class ConditionalConfig:
    """A conditional GAN pair: 4x4 pixels doubled to `resolution`, channels halved on the way down to `width`.

    The official networks (LetheSec/PLG-MI-Attack, models/generators/resnet64.py and
    models/discriminators/snresnet64.py) are resolution 64, z_dim 128, width 64. classes: C, of the target. output: what
    the generator's tanh stands for: "signed", images in [-1, 1]; "unit", images in [0, 1], and its negative half none.
    """

    classes: int
    resolution: int = 64
    z_dim: int = 128
    width: int = 64
    output: str = "signed"

    def __post_init__(self) -> None:
        require_count("conditional gan: classes", self.classes, 1, 2**20)
        require(self.resolution in SIDES, "conditional gan: resolution", "16, 32 or 64", self.resolution)
        require_count("conditional gan: z_dim", self.z_dim, 1, 2**14)
        require_count("conditional gan: width", self.width, 1, 2**12)
        require_choice("conditional gan: output", self.output, ("signed", "unit"))

    @property
    def channels(self) -> tuple[int, ...]:
        """Of the generator at 4, 8, ... `resolution` pixels; of the discriminator from the last to the first."""
        doublings = (self.resolution // 4).bit_length() - 1
        return tuple(self.width * 2**power for power in range(doublings, -1, -1))


@dataclass(frozen=True, kw_only=True)
class ConditionalTraining(Importable):
    """How the pair is trained, or the folder of one that is trained already.

    steps: iterations, each one step of the generator and then critic_steps of the discriminator; lr, betas: Adam's, of
    both; inversion_weight: of the target's loss beside the hinge loss; loss: which loss of the target, a name of
    `core.attacks.optimisation.losses.ATTACK_LOSSES`; z_dim, width: of the networks.
    """

    steps: int = 30_000
    critic_steps: int = 5
    batch_size: int = 64
    lr: float = 2e-4
    betas: tuple[float, float] = (0.0, 0.9)
    inversion_weight: float = 0.2
    loss: Loss = "max_margin"
    z_dim: int = 128
    width: int = 64
    seed: int = 46

    def __post_init__(self) -> None:
        require_count("attack.gan.steps", self.steps)
        require_count("attack.gan.critic_steps", self.critic_steps)
        require_count("attack.gan.batch_size", self.batch_size, 2)  # batch norm has no spread to see in one image
        require_number("attack.gan.lr", self.lr, 0, above=True)
        for beta in self.betas:
            require_number("attack.gan.betas", beta, 0, 1, below=True)
        require_number("attack.gan.inversion_weight", self.inversion_weight, 0)
        require_choice("attack.gan.loss", self.loss, LOSSES)
        require_count("attack.gan.z_dim", self.z_dim, 1, 2**14)
        require_count("attack.gan.width", self.width, 1, 2**12)
        require_seed("attack.gan.seed", self.seed)
        self.check_shares("attack.gan", self.batch_size)
