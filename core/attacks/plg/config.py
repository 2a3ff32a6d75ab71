"""How PLG-MI's networks are trained. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.attacks.ppa.config import Loss
from smoothsweep.core.attacks.shared.base import Importable
from smoothsweep.core.bounds import MOST, Beta, Channels, Count, NotNegative, Positive, Seed, Width
from smoothsweep.core.declared import check_fields


@dataclass(frozen=True, kw_only=True)
class ConditionalTraining(Importable):
    """How the pair is trained, or the folder of one that is trained already.

    Attributes:
        steps: Iterations, each one step of the generator and then critic_steps of the discriminator.
        critic_steps: Steps of the discriminator in each iteration.
        batch_size: Images of a step.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        inversion_weight: Weight of the target's loss beside the hinge loss.
        loss: Loss of the target, by name.
        z_dim: Numbers in a latent.
        width: Channels of the largest feature map.
        seed: Seed of first weights and draws.
    """

    steps: Count = 30_000
    critic_steps: Count = 5
    batch_size: Annotated[int, Ge(2), Le(MOST)] = 64
    lr: Positive = 2e-4
    betas: tuple[Beta, Beta] = (0.0, 0.9)
    inversion_weight: NotNegative = 0.2
    loss: Loss = "max_margin"
    z_dim: Width = 128
    width: Channels = 64
    seed: Seed = 46

    def __post_init__(self) -> None:
        check_fields(self, "attack.gan.")
        self.check_workers("attack.gan")
