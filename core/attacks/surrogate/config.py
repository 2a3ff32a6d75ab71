"""How surrogates of a target are trained. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from core.attacks.optimisation.crop_rule import CropRule
from core.bounds import Beta, Count, NotNegative, Positive, Seed
from core.checks import require, require_choice
from core.models.image_sizes import LEAST

VIEWS = CropRule(scale=(0.8, 1.0), ratio=(0.9, 1.1), hflip=0.5)
"""Under which every image is learnt a second time."""


@dataclass(frozen=True, kw_only=True)
class SurrogateTraining:
    """How networks learn what the target answered to the prior's pictures.

    architectures: one network each; pretrained: start from ImageNet weights; epochs: passes over the pictures, what is
    left of a last batch aside; batch_size: pictures of a step, each shown twice; lr, momentum, weight_decay: SGD's,
    whose rate falls to 0 along a cosine; balance: how far rare answers count for more, 0 for not at all (a picture
    whose class was answered n times weighs (1 - balance) / (1 - balance^(n + 1))); seed: of weights, order and views.

    Rate and schedule are those of LOKT (ngoc-nguyen-0/LOKT_neurips2023, train_surrogate_model.py), the half of the loss
    on a changed view too; the weights those that SMILE means (L1ziang/SMILE, arXiv 2503.16266).
    """

    architectures: tuple[str, ...] = ("densenet121", "resnet18")
    pretrained: bool = True
    epochs: Count = 40
    batch_size: Annotated[Count, Ge(2)] = 64
    lr: Positive = 0.1
    momentum: Beta = 0.9
    weight_decay: NotNegative = 5e-4
    balance: Beta = 0.9
    seed: Seed = 1

    def __post_init__(self) -> None:
        require(bool(self.architectures), "attack.surrogates.architectures", "at least one", self.architectures)
        for name in self.architectures:
            require_choice("attack.surrogates.architectures", name, tuple(LEAST))

    def steps(self, pictures: int) -> int:
        """Steps of a network's training. Raises InputError for less than a batch of pictures."""
        require(pictures >= self.batch_size, "attack.pool.size",
                f"at least attack.surrogates.batch_size ({self.batch_size})", pictures)  # fmt: skip
        return self.epochs * (pictures // self.batch_size)

    def lr_at(self, step: int, steps: int) -> float:
        """The rate of a zero-based step."""
        return self.lr * (1 + math.cos(math.pi * step / steps)) / 2
