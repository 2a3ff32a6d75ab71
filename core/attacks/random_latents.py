"""A control: images of the prior, drawn without a look at the target. What a judge credits to it is no leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.latent_images import LatentSettings
from smoothsweep.core.attacks.shared.base import Access, Attack, AttackInputs, Reconstructions
from smoothsweep.core.bounds import Layers, Positive
from smoothsweep.core.checks import present

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import View


@dataclass(frozen=True, kw_only=True)
class RandomLatents(LatentSettings, Attack):
    """As many images per class as an attack keeps, drawn without asking the target."""

    title: ClassVar[str] = "random latents"
    cites: ClassVar[tuple[str, ...]] = ()  # nobody published it
    access: ClassVar[Access] = "none"
    control: ClassVar[bool] = True

    truncation_psi: Positive = 0.5
    truncation_cutoff: Layers | None = 8

    def invert(self, view: View, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Latents that follow from the seed and the class alone; nothing has scored them."""
        import torch

        from smoothsweep.core.seeds import derive_seed

        numpy_seed = derive_seed(seed, target_class, "random latents") % 2**32  # what its legacy stream takes
        z = (
            torch.from_numpy(present(inputs.prior, "prior").sample_z(self.selected, numpy_seed))
            .float()
            .to(view.execution.device)
        )
        with torch.no_grad():
            w = present(inputs.prior, "prior").map(z, psi=self.truncation_psi, cutoff=self.truncation_cutoff)
        return Reconstructions(w=w.cpu())
