"""PLG-MI (Yuan et al., AAAI 2023) as a row of the attack family: white-box, 64 pixels.

Pseudo-labels of the public images, a conditional GAN trained on them and against the target, and a search in its
latents under random views of the image. Defaults are the published ones (LetheSec/PLG-MI-Attack: README.md,
train_cgan.py, reconstruct.py). What protocol `paper` keeps of the official code is named where it is computed:
plg_search.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.ppa.config import Loss
from smoothsweep.core.attacks.shared.base import AttackInputs, Part, Reconstructions
from smoothsweep.core.attacks.training_settings import (
    CONDITIONAL,
    CONDITIONAL_SIDES,
    ConditionalTraining,
    TrainedGanAttack,
    gan_part,
)
from smoothsweep.core.bounds import Count, Latents, Positive
from smoothsweep.core.checks import present, require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView


@dataclass(frozen=True, kw_only=True)
class PLGMI(TrainedGanAttack):
    """Latents of a generator that was trained to please the target, moved by Adam towards the class.

    Attributes:
        top_n: Public images labelled with each class.
        gan: How the conditional GAN is trained.
        selected: Restarts, all of which are kept.
        steps: Adam steps of the search in latents.
        lr: Learning rate of the search.
        loss: What the search minimises, by name.
    """

    title = "PLG-MI"
    cites = ("yuan2023pseudo",)
    own_gan = CONDITIONAL
    paper_columns: ClassVar[Mapping[str, str]] = {"fid": "fid_plg", "attack_acc1_std": "attack_acc1_std_batches"}

    selected: Latents = 5
    top_n: Count = 30
    gan: ConditionalTraining = field(default_factory=ConditionalTraining)
    steps: Count = 600
    lr: Positive = 0.1
    loss: Loss = "max_margin"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gan.check_alone(ConditionalTraining())
        expected = "no value with an imported GAN, which needs no labels"
        require(self.gan.imported is None or self.top_n == 30, "attack.top_n", expected, self.top_n)

    @property
    def variant(self) -> str | None:
        chosen = {"loss": self.loss, "gan": self.gan.loss}
        return " ".join(f"{what} {loss}" for what, loss in chosen.items() if loss != "max_margin") or None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pseudo-labels of the target, and the GAN trained on them: once for all classes."""
        gan = gan_part(CONDITIONAL, self.gan, "public", "target", "plg_labels")
        if self.gan.imported is not None:
            return (gan,)
        return Part(name="plg_labels", needs=("public", "target"), settings={"top_n": self.top_n}), gan

    @property
    def needs(self) -> tuple[str, ...]:
        return (CONDITIONAL,)

    @property
    def enlarging(self) -> str:
        """The official judges are shown float images, resized with aligned corners."""
        return "aligned_corners"

    @property
    def report(self) -> tuple[str, int]:
        """Its own: variances over the restarts, distances of pictures that were saved; 60 classes at once."""
        return "plg", 60

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        expected = "64 pixels, or 16 or 32"
        require(image_size in CONDITIONAL_SIDES, "attack plg_mi: side of the target's input", expected, image_size)

    def check_public(self, count: int) -> None:
        enough = self.gan.imported is not None or self.top_n <= count
        require(enough, "attack.top_n", f"at most the {count} public images", self.top_n)

    def invert(self, view: GradientView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """All restarts at once; they are put in the target's order, and none is left out."""
        from smoothsweep.core.attacks.gan_networks import with_class
        from smoothsweep.core.attacks.lowres_search import left_of_class
        from smoothsweep.core.attacks.plg_search import draw_views, search, starts

        made, protocol = inputs.networks[CONDITIONAL]["generator"], present(inputs.protocol, "protocol")
        start = starts(made.config.z_dim, self.selected, target_class, seed=seed, protocol=protocol)
        drawn = partial(
            draw_views,
            side=made.resolution,
            restarts=self.selected,
            target_class=target_class,
            seed=seed,
            protocol=protocol,
        )
        descent = search(made, view, self, target_class, start, drawn, protocol)
        w = with_class(descent.w, target_class)
        return left_of_class(view, made, w, target_class, descent, places="restart", in_order=False)
