"""What attacks share that bring a GAN of their own, trained as a part or elsewhere. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.gan.imported import check_imported, check_imported_classes
from smoothsweep.core.attacks.shared.base import Access, Aggregate, Attack, Importable


@dataclass(frozen=True, kw_only=True)
class TrainedGanAttack(Attack):
    """A search in the latents of the attack's own generator, which is its `decoder`, by the target's gradients."""

    access: ClassVar[Access] = "gradients"
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "loss_first": "mean",
        "loss_last": "mean",
        "gradient_cosine": "mean",
        "num_frozen": "sum",
    }

    if TYPE_CHECKING:
        gan: Importable

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError for an imported GAN of images of another size, too."""
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        if self.gan.imported is not None:
            check_imported(self.gan.imported, self.decoder, image_size)

    def check_classes(self, count: int) -> None:
        """Raise InputError for an imported GAN that knows the classes of another target."""
        if self.gan.imported is not None:
            check_imported_classes(self.gan.imported, self.decoder, count)
