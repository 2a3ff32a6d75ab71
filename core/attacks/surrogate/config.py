"""How surrogates of a target are trained. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from smoothsweep.core.attacks.distillation.config import DistilledBySGD
from smoothsweep.core.attacks.optimisation.crop_rule import CropRule
from smoothsweep.core.bounds import Beta, Count, NotNegative, Positive
from smoothsweep.core.checks import require

VIEWS = CropRule(scale=(0.8, 1.0), ratio=(0.9, 1.1), hflip=0.5)
"""Under which every image is learnt, beside or in the place of itself."""


@dataclass(frozen=True, kw_only=True)
class SurrogateTraining(DistilledBySGD):
    """How networks learn what the target answered to the prior's pictures; the rate falls to 0 along a cosine.

    The rest is described with `DistilledBySGD`.

    Rate and schedule are those of LOKT (ngoc-nguyen-0/LOKT_neurips2023, train_surrogate_model.py), the half of the loss
    on a changed view too, which "both" is; the weights those that SMILE means (L1ziang/SMILE, arXiv 2503.16266).

    Attributes:
        shown: "both", every picture of a step as it is and once changed; or "changed", changed alone, at half the cost.
        balance: How far rare answers count for more, 0 for not at all (a picture whose class was answered n times
            weighs (1 - balance) / (1 - balance^(n + 1))).
    """

    KEY: ClassVar[str] = "attack.surrogates"

    architectures: tuple[str, ...] = ("densenet121", "resnet18")
    epochs: Count = 40
    lr: Positive = 0.1
    weight_decay: NotNegative = 5e-4
    balance: Beta = 0.9
    shown: Literal["both", "changed"] = "both"

    def steps(self, pictures: int) -> int:
        """Steps of a network's training. Raises InputError for less than a batch of pictures."""
        require(
            pictures >= self.batch_size,
            "attack.pool.size",
            f"at least attack.surrogates.batch_size ({self.batch_size})",
            pictures,
        )
        return self.epochs * (pictures // self.batch_size)

    def lr_at(self, step: int, steps: int) -> float:
        """The rate of a zero-based step."""
        return self.lr * (1 + math.cos(math.pi * step / steps)) / 2
