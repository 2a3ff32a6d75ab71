"""A control: images of the prior, drawn without a look at the target. What a judge credits to it is no leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from core.attacks.access import Access
from core.attacks.base import Attack
from core.checks import require_count, require_number

if TYPE_CHECKING:
    from core.attacks.given import Given
    from core.attacks.reconstructions import Reconstructions
    from core.attacks.view import View


@dataclass(frozen=True, kw_only=True)
class RandomLatents(Attack):
    """As many images per class as an attack keeps. truncation_psi, truncation_cutoff, image_crop: as of a pool."""

    access: ClassVar[Access] = "none"
    control: ClassVar[bool] = True

    truncation_psi: float = 0.5
    truncation_cutoff: int | None = 8
    image_crop: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("attack.truncation_psi", self.truncation_psi, 0, above=True)
        if self.truncation_cutoff is not None:
            require_count("attack.truncation_cutoff", self.truncation_cutoff, 0)
        if self.image_crop is not None:
            require_count("attack.image_crop", self.image_crop)

    @property
    def crop(self) -> int | None:
        """As given."""
        return self.image_crop

    def invert(self, view: View, given: Given, target_class: int, *, seed: int) -> Reconstructions:
        """Latents that follow from the seed and the class alone; nothing has scored them."""
        import torch

        from core.attacks.reconstructions import Reconstructions
        from core.attacks.seeds import derive_seed

        numpy_seed = derive_seed(seed, target_class, "random latents") % 2**32  # what its legacy stream takes
        z = torch.from_numpy(given.prior.sample_z(self.selected, numpy_seed)).float().to(view.execution.device)
        with torch.no_grad():
            w = given.prior.map(z, psi=self.truncation_psi, cutoff=self.truncation_cutoff)
        return Reconstructions(w=w.cpu())
