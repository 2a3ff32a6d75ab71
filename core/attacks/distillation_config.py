"""What the trainings of networks that learn from a target have in common. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from smoothsweep.core.bounds import Beta, Count, NotNegative, Positive, Seed
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.models.image_sizes import LEAST


@dataclass(frozen=True, kw_only=True)
class TaughtBySGD:
    """architectures: one network each; pretrained: start from ImageNet weights; epochs: passes over the images, what is
    left of a last batch aside; batch_size: images of a step; lr, momentum, weight_decay: SGD's; seed: of weights and
    order.
    """

    KEY: ClassVar[str]
    """Where it stands in a sweep file."""

    architectures: tuple[str, ...]
    pretrained: bool = True
    epochs: Count = 20
    batch_size: Annotated[Count, Ge(2)] = 64
    lr: Positive = 0.01
    momentum: Beta = 0.9
    weight_decay: NotNegative = 1e-4
    seed: Seed = 1

    def __post_init__(self) -> None:
        require(bool(self.architectures), f"{self.KEY}.architectures", "at least one", self.architectures)
        for name in self.architectures:
            require_choice(f"{self.KEY}.architectures", name, tuple(LEAST))
