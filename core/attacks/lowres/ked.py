"""KED-MI (Chen et al., ICCV 2021): a GAN that knows the target's soft labels, and a distribution of latents per class.

SCccc21/Knowledge-Enriched-DMI, k+1_gan.py, attack.py and recovery.py, whose settings are the defaults. Protocol `paper`
keeps what makes its numbers: the target in training mode while the GAN is trained, the entropy summed over a batch,
and a discriminator that compares the images of `reference_batch` classes with each other, so that a class's numbers
depend on its batch, which follows from the sweep's list of classes. Under `clean` every image is looked at alone.
The published clamp of the latents comes after each step and has no effect: there is none here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.gan.parts import SPECIFIC, specific_gan
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.shared.base import AttackInputs, Part, Reconstructions
from smoothsweep.core.bounds import Count

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.lowres.search import Objective
    from smoothsweep.core.attacks.shared.view import GradientView


@dataclass(frozen=True, kw_only=True)
class KED(LowResolution):
    """One search per class for mean and log variance; `selected` latents are drawn from what it finds.

    start_log_variance: logarithm of the latents' variance at the start (1 in the official code).
    """

    title: ClassVar[str] = "KED-MI"
    cites: ClassVar[tuple[str, ...]] = ("chen2021knowledge",)
    clamp: ClassVar[float | None] = None

    steps: Count = 2400
    start_log_variance: Annotated[float, Ge(-20), Le(20)] = 1.0
    gan: GanTraining = field(default_factory=GanTraining)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The GAN, made for one target."""
        return (specific_gan(self.gan),)

    def class_batch(self, protocol: str) -> int:
        """Under `paper` the classes that the discriminator sees together."""
        return self.reference_batch if protocol == "paper" else 1

    def invert(self, view: GradientView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """A class alone: under `paper`, a batch of one."""
        return self.invert_batch(view, inputs, [target_class], seed=seed)[0]

    def invert_batch(
        self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> Sequence[Reconstructions]:
        """The classes side by side, one latent of each in every step."""
        import torch

        from smoothsweep.core.attacks.lowres.search import distribution, make_reconstructions, sampled

        z_dim = inputs.networks[SPECIFIC]["generator"].config.z_dim
        start = torch.zeros(len(classes), 2, z_dim, device=view.execution.device)
        start[:, 1] = self.start_log_variance
        objective = self._objective(view, inputs, classes, seed)
        with view.execution.arithmetic():
            descent = distribution(start, objective, steps=self.steps, lr=self.lr)
        generator, best_first = inputs.networks[SPECIFIC]["generator"], inputs.protocol == "clean"
        reconstructions = []
        for row, target_class in enumerate(classes):
            noise = torch.stack([self._noise(z_dim, seed, target_class, "draw", k) for k in range(self.selected)])
            z = sampled(descent.w[row].expand(self.selected, -1, -1), noise.to(descent.w.device), self.clamp)
            rows = torch.tensor([row])
            reconstructions.append(
                make_reconstructions(view, generator, z, target_class, descent, rows, best_first=best_first)
            )
        return reconstructions

    def _objective(self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], seed: int) -> Objective:
        import torch

        from smoothsweep.core.attacks.lowres.search import Objective, sampled, shared_realness

        execution, networks = view.execution, inputs.networks[SPECIFIC]
        judge = shared_realness(networks["discriminator"], None if inputs.protocol == "paper" else 1)

        z_dim = networks["generator"].config.z_dim

        def latent(leaf: Tensor, step: int) -> Tensor:
            noise = torch.stack([self._noise(z_dim, seed, target_class, "step", step) for target_class in classes])
            return sampled(leaf, noise.to(leaf.device), self.clamp)

        return Objective(
            decoder=execution.synthesizer(networks["generator"]),
            realness=execution.target(judge),
            identity=self.identity(view, inputs),
            labels=torch.tensor(classes, device=execution.device),
            weight=self.identity_weight,
            scale=1 / self.reference_batch,
            latent=latent,
        )

    def _noise(self, z_dim: int, seed: int, target_class: int, what: str, number: int) -> Tensor:
        """[z_dim], which depends on the class, not on its place in a batch."""
        import torch

        from smoothsweep.core.seeds import generator

        return torch.randn(z_dim, generator=generator(seed, target_class, what, number))
