"""What GMI, KED-MI and LOMMA share as attacks. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.gan.config import SIDES, GanTraining
from smoothsweep.core.attacks.gan.trained import TrainedGanAttack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.bounds import Count, NotNegative, Positive
from smoothsweep.core.checks import require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.lowres.search import IdentityLoss
    from smoothsweep.core.attacks.shared.view import GradientView


@dataclass(frozen=True, kw_only=True)
class LowResolution(TrainedGanAttack):
    """A GAN of the attack's own, and a search that minimises the sum of a prior and an identity loss.

    Attributes:
        selected: Reconstructions of each class.
        steps: Steps of the search in latents.
        lr: Learning rate of the search.
        identity_weight: Weight of the identity loss beside the discriminator's.
        reference_batch: Classes of the batch that the official code takes means over.
        gan: How the attack's own GAN is trained.
    """

    paper_columns: ClassVar[Mapping[str, str]] = {  # by LOMMA's code: sweeps/paper/README.md
        "attack_acc5": "attack_acc5_last",
        "fid": "fid_lomma",
        "attack_acc1_std": "attack_acc1_std_batches",
    }

    selected: Count = 5
    steps: Count = 1500
    lr: Positive = 0.02
    identity_weight: NotNegative = 100.0
    reference_batch: Count = 60
    gan: GanTraining = field(default_factory=GanTraining)

    def __post_init__(self) -> None:
        super().__post_init__()
        factories = [setting.default_factory for setting in fields(self) if setting.name == "gan"]
        [usual] = [make() for make in factories if make is not MISSING]
        self.gan.check_alone(usual)

    @property
    def needs(self) -> tuple[str, ...]:
        """Its parts alone: no prior."""
        return tuple(part.name for part in self.parts)

    @property
    def decoder(self) -> str:
        """Its own generator."""
        return self.parts[0].name

    @property
    def enlarging(self) -> str:
        """Cut to 8 bits and resized as pictures are."""
        return "truncated_bytes"

    @property
    def report(self) -> tuple[str, int]:
        """The report of LOMMA's evaluation, by which published tables count all of these attacks."""
        return "lomma", self.reference_batch

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError for a target of another size than the networks can have, too."""
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        sides = " or ".join(map(str, SIDES))
        require(image_size in SIDES, "recipe.image_size", f"{sides} pixels with this attack", image_size)

    def check_public(self, count: int) -> None:
        """Raise InputError for fewer public images than a batch of the GAN's training has."""
        if self.gan.imported is None:
            self.gan.steps(count)

    def identity(self, view: GradientView, inputs: AttackInputs) -> IdentityLoss:
        """What the search makes the target see."""
        from smoothsweep.core.attacks.lowres.identity import CrossEntropy
        from smoothsweep.core.attacks.shared.view import require_access

        require_access(view, "gradients", "this attack")
        return CrossEntropy(view=view)
