"""How the stability of a target's gradients is measured. Apart from the measuring, so that planning loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le

from smoothsweep.core.attacks.ppa.adaptive_config import Averaging
from smoothsweep.core.attacks.ppa.config import Loss, OptimiseConfig
from smoothsweep.core.bounds import MOST, Beta, Count, Positive, Seed
from smoothsweep.core.checks import require_range

LOSSES: tuple[Loss, ...] = ("poincare", "cross_entropy")
"""Losses of the paper's Figs. 6b and 7."""


@dataclass(frozen=True, kw_only=True)
class GradientSettings:
    """A descent from random latents, as Plug & Play's stage 2; the defaults are the paper's (section 4.4, B.4).

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

    per_class: Count = 2
    seed: Seed = 42
    truncation_psi: Positive = 0.5
    truncation_cutoff: Annotated[int, Ge(0), Le(MOST)] | None = 8
    crop: Count | None = None
    steps: Annotated[int, Ge(2), Le(MOST)] = 50
    lr: Positive = 0.005
    betas: tuple[Beta, Beta] = (0.1, 0.1)
    crop_scale: tuple[float, float] = (0.9, 1.0)
    average: Averaging | None = None

    def __post_init__(self) -> None:
        require_range("judges.gradients.crop_scale", self.crop_scale, 0, 1)

    def descent(self, loss: Loss) -> OptimiseConfig:
        """These settings as stage 2 knows them."""
        moved: dict[str, Any] = {"steps": self.steps, "lr": self.lr, "betas": self.betas, "crop_scale": self.crop_scale}
        return OptimiseConfig(**moved, average=self.average, loss=loss)
