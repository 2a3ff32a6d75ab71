"""The target's gradients, followed from random latents (the paper's Figs. 6b and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.attacks.ppa.config import Averaging, Loss, OptimiseConfig
from smoothsweep.core.bounds import MOST, Beta, Count, Positive, Seed, Shares
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

LOSSES: Mapping[Loss, str] = {"poincare": "Poincar\u00e9", "cross_entropy": "cross-entropy"}
"""The losses of the paper's Figs. 6b and 7, and what a label calls them."""
_WAY = "Mean over the steps of a descent from random latents, and over the attacked classes, under the {} loss: "

COLUMNS: tuple[Metric, ...] = tuple(
    metric
    for loss, name in LOSSES.items()
    for metric in (
        Metric(
            key=f"gradients_cosine_{loss}",
            label=f"gradient cosine, {name}",
            unit="plain",
            bounds=(-1.0, 1.0),
            description=_WAY.format(name) + "cosine between the gradients at consecutive images (the paper's eq. 4).",
            null="every gradient was exactly zero",
        ),
        Metric(
            key=f"gradients_zero_{loss}",
            label=f"zero gradients, {name}",
            description=_WAY.format(name) + "share of image gradients that are exactly zero.",
        ),
        Metric(
            key=f"gradients_logit_gap_{loss}",
            label=f"logit gap on the way, {name}",
            unit="plain",
            description=_WAY.format(name) + "the class's logit minus the mean of the others.",
        ),
        Metric(
            key=f"gradients_saturated_{loss}",
            label=f"saturated softmax, {name}",
            description=_WAY.format(name) + "share of images whose largest probability rounds to exactly 1 in single "
            "precision, where cross-entropy's gradient ends.",
        ),
    )
)


@dataclass(frozen=True, kw_only=True)
class Gradients(Judge):
    """The target's gradients, followed from random latents (the paper's Figs. 6b and 7); it needs no attack.

    A descent from random latents, as Plug & Play's stage 2; the defaults are the paper's (section 4.4, B.4).

    Attributes:
        per_class: Latents of each attacked class (the paper drew 1,000 latents and classes: two for each of 530).
        seed: Seed of the latents' draw, one for all targets.
        truncation_psi: The prior's truncation, 1 for none.
        truncation_cutoff: How many layers it is applied to, from the coarsest on, None for all.
        crop: Side of the central crop in pixels of the prior (None: no crop).
        steps: Adam steps of the descent.
        lr: Adam's learning rate.
        betas: Adam's two decay rates.
        crop_scale: Smallest and largest fraction of the area that the random crop of each step keeps.
        average: Take the gradient as a mean over neighbours of the image, None for the gradient at the image.
    """

    cites = ("struppek2024careful",)

    work = StageWork(
        run="smoothsweep.tasks.judging:collect_gradients",
        shard="smoothsweep.tasks.judging:follow_classes",
        labelled=("target",),
        not_finite=("gradients.parquet", "per_class.parquet"),  # none where a gradient is zero
    )
    columns = COLUMNS
    draws = "gradient_curves"
    example: ClassVar[Mapping[str, Any]] = {"steps": 3}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"steps": 1},)
    sees = "gradients"

    per_class: Count = 2
    seed: Seed = 42
    truncation_psi: Positive = 0.5
    truncation_cutoff: Annotated[int, Ge(0), Le(MOST)] | None = 8
    crop: Count | None = None
    steps: Annotated[int, Ge(2), Le(MOST)] = 50
    lr: Positive = 0.005
    betas: tuple[Beta, Beta] = (0.1, 0.1)
    crop_scale: Shares = (0.9, 1.0)
    average: Averaging | None = None

    def descent(self, loss: Loss) -> OptimiseConfig:
        """These settings as stage 2 knows them."""
        moved: dict[str, Any] = {"steps": self.steps, "lr": self.lr, "betas": self.betas, "crop_scale": self.crop_scale}
        return OptimiseConfig(**moved, average=self.average, loss=loss)

    def check(self, sweep: Any) -> None:
        if not sweep.reads_prior:
            expected = "expected an attack that decodes latents by the sweep's prior, which this judge draws from"
            raise InputError(f"judges.gradients: {expected}, got {sweep.attack.kind}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        return Planned(
            config={
                "settings": builder.stated(),
                "classes": builder.classes,
                "image_size": builder.image_size,
                "protocol": builder.protocol,
                **builder.passes(asks=True),
            },
            inputs={"target": "target", "prior": builder.prior(self.crop, "crop")},
        )
