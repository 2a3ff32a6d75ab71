"""Settings of robustness measurements, in a file of their own so that planning loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.errors import InputError

LEAST_CLASSES = 3
"""Auto-PGD's loss compares three logits."""

SmallStep = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True, kw_only=True)
class RobustnessSettings:
    """Parameters of the attacks. The defaults are the paper's (Appendix C.8); those of `strong_*` are AutoAttack's.

    Attributes:
        eps: Largest change of a pixel's channel, of pictures in [0, 1] (8/255).
        step: Change in one iteration of PGD and BIM, on the same scale (2/255).
        steps: Iterations of PGD and BIM.
        generations: Generations of the one-pixel attack's differential evolution.
        population: Images of each of these generations.
        strong_steps: Iterations of Auto-PGD with the difference of logits ratio.
        strong_restarts: Random starts of Auto-PGD.
        images: Measure on this many of the test images, drawn by `seed`; null: on all.
        seed: Seed of random starts, targets and evolution.
    """

    eps: SmallStep = 8 / 255
    step: SmallStep = 2 / 255
    steps: Count = 10
    generations: Count = 10
    population: Count = 10
    strong_steps: Count = 100
    strong_restarts: Count = 1
    images: Count | None = None
    seed: Seed = 0

    def check_classes(self, classes: int) -> None:
        """Raise InputError for fewer classes than the attacks need."""
        if classes < LEAST_CLASSES:
            raise InputError(f"robustness: expected pictures of at least {LEAST_CLASSES} classes, got {classes}")

    def check_images(self, count: int) -> None:
        """Raise InputError where there is no test image, or fewer than `images`."""
        if not count:
            raise InputError("robustness: expected pictures, got none")
        if self.images is not None and self.images > count:
            raise InputError(f"judges.robustness.images: expected at most the {count} test images, got {self.images}")
