"""GMI (Zhang et al., CVPR 2020): a GAN of public images, and momentum on its latents.

AI-secure/GMI-Attack, Celeba/attack.py and train_gan.py, whose settings are the defaults. Its loss is the mean over a
batch of classes and its optimiser plain SGD, so that a class's steps depend on how many classes there are: here they
are those of a batch of `reference_batch`, whatever the work is cut into, which is 60 in all later code. The published
evaluation counts the restarts one by one: protocol `paper` leaves them in their order, `clean` best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.gan.parts import GENERAL, general_gan
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.shared.base import AttackInputs, Part, Reconstructions
from smoothsweep.core.bounds import Beta, Positive

if TYPE_CHECKING:
    from smoothsweep.core.attacks.lowres.side_by_side import Search
    from smoothsweep.core.attacks.optimisation.descent import Descent
    from smoothsweep.core.attacks.shared.view import GradientView

ROWS = 20  # of a pass with gradients; with more, a row costs no less (docs/benchmarks.md)


@dataclass(frozen=True, kw_only=True)
class GMI(LowResolution):
    """Restarts from Gaussian latents, each one an image.

    Attributes:
        momentum: Momentum of the search in latents.
        bound: Every number of a latent stays in [-bound, bound].
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

    def side_by_side(self, device: str) -> int:
        """So many classes that their restarts fill a pass, on a CPU."""
        return max(1, ROWS // self.selected) if device == "cpu" else 1

    def invert(self, view: GradientView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """All restarts side by side; each starts from a draw of its own."""
        return self.invert_batch(view, inputs, [target_class], seed=seed)[0]

    def invert_batch(
        self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> Sequence[Reconstructions]:
        """The classes side by side where that changes none of their numbers, else one after the other."""
        import torch

        from smoothsweep.core.attacks.lowres.search import make_reconstructions
        from smoothsweep.core.attacks.lowres.side_by_side import descend_classes

        networks, best_first = inputs.networks[GENERAL], inputs.protocol == "clean"
        descents = descend_classes(
            self._search(view, inputs, seed),
            classes,
            rows=self.selected,
            steps=self.steps,
            view=view,
            networks=(networks["generator"], networks["discriminator"], view.logits),
        )
        rows = torch.arange(self.selected)
        return [
            make_reconstructions(
                view, networks["generator"], descent.w, target_class, descent, rows, best_first=best_first
            )
            for target_class, descent in zip(classes, descents, strict=True)
        ]

    def _search(self, view: GradientView, inputs: AttackInputs, seed: int) -> Search:
        import torch

        from smoothsweep.core.attacks.lowres.search import Objective, momentum
        from smoothsweep.core.seeds import generator

        execution, networks = view.execution, inputs.networks[GENERAL]
        z_dim = networks["generator"].config.z_dim

        def search(classes: Sequence[int], steps: int) -> Descent:
            draws = [generator(seed, c, "restart", restart) for c in classes for restart in range(self.selected)]
            starts = torch.stack([torch.randn(z_dim, generator=draw) for draw in draws]).to(execution.device)
            objective = Objective(
                decoder=execution.synthesizer(networks["generator"]),
                realness=execution.target(networks["discriminator"]),
                identity=self.identity(view, inputs),
                labels=torch.tensor(classes, device=execution.device).repeat_interleave(self.selected),
                weight=self.identity_weight,
                scale=1 / self.reference_batch,
                latent=lambda z, step: z,
            )
            with execution.arithmetic():
                return momentum(starts, objective, steps=steps, lr=self.lr, momentum=self.momentum, clip=self.bound)

        return search
