"""How PLG-MI's networks are trained. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from smoothsweep.core.attacks.ppa.config import LOSSES, Loss
from smoothsweep.core.attacks.shared.importable import Importable
from smoothsweep.core.checks import require_choice, require_count, require_number, require_seed


@dataclass(frozen=True, kw_only=True)
class ConditionalTraining(Importable):
    """How the pair is trained, or the folder of one that is trained already.

    steps: iterations, each one step of the generator and then critic_steps of the discriminator; critic_steps: steps of
    the discriminator in each iteration; batch_size: images of a step, over all workers together; lr: Adam's learning
    rate, of both networks; betas: Adam's two decay rates; inversion_weight: weight of the target's loss beside the
    hinge loss; loss: loss of the target, by name; z_dim: numbers in a latent; width: channels of the largest feature
    map; seed: of first weights and draws.
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
