"""GMI (Zhang et al., CVPR 2020): a GAN of public images, and momentum on its latents.

AI-secure/GMI-Attack, Celeba/attack.py and train_gan.py, whose settings are the defaults. Its loss is the mean over a
batch of classes and its optimiser plain SGD, so that a class's steps depend on how many classes there are: here they
are those of a batch of `reference_batch`, whatever the work is cut into, which is 60 in all later code. The published
evaluation counts the restarts one by one: protocol `paper` leaves them in their order, `clean` best first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.gan.parts import GENERAL, general_gan
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.shared.base import Part
from smoothsweep.core.bounds import Beta, Positive

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.attack_inputs import Given
    from smoothsweep.core.attacks.shared.reconstructions import Reconstructions
    from smoothsweep.core.attacks.shared.view import GradientView


@dataclass(frozen=True, kw_only=True)
class GMI(LowResolution):
    """Restarts from Gaussian latents, each one an image.

    momentum: momentum of the search in latents; bound: every number of a latent stays in [-bound, bound].
    """

    title: ClassVar[str] = "GMI"
    cites: ClassVar[tuple[str, ...]] = ("zhang2020secret",)

    momentum: Beta = 0.9
    bound: Positive = 1.0
    gan: GanTraining = field(default_factory=lambda: GanTraining(epochs=280))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The GAN, one for all targets."""
        return (general_gan(self.gan),)

    @property
    def report(self) -> tuple[str, int]:
        """LOMMA's, and its own two numbers."""
        return "gmi", self.reference_batch

    def invert(self, view: GradientView, given: Given, target_class: int, *, seed: int) -> Reconstructions:
        """All restarts side by side; each starts from a draw of its own."""
        import torch

        from smoothsweep.core.attacks.lowres.search import Objective, found_of, momentum
        from smoothsweep.core.attacks.optimisation.seeds import generator

        execution, networks = view.execution, given.networks[GENERAL]
        starts = [
            torch.randn(networks["generator"].config.z_dim, generator=generator(seed, target_class, "restart", restart))
            for restart in range(self.selected)
        ]
        objective = Objective(
            decoder=execution.synthesizer(networks["generator"]),
            realness=execution.target(networks["discriminator"]),
            identity=self.identity(view, given),
            labels=torch.full((self.selected,), target_class, device=execution.device),
            weight=self.identity_weight,
            scale=1 / self.reference_batch,
            latent=lambda z, step: z,
        )
        with execution.arithmetic():
            descent = momentum(
                torch.stack(starts).to(execution.device),
                objective,
                steps=self.steps,
                lr=self.lr,
                momentum=self.momentum,
                clip=self.bound,
            )
        return found_of(
            view,
            networks["generator"],
            descent.w,
            target_class,
            descent,
            torch.arange(self.selected),
            best_first=given.protocol == "clean",
        )
