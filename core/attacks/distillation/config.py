"""Trainings of networks that learn from a target: what they share, and those of LOMMA's students. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from smoothsweep.core.attacks.shared.base import Shared
from smoothsweep.core.bounds import Beta, Count, NotNegative, Positive, Seed
from smoothsweep.core.checks import require, require_choice, require_count
from smoothsweep.core.models.architectures import LEAST


@dataclass(frozen=True, kw_only=True)
class DistilledBySGD:
    """Networks that learn a target's answers, by SGD.

    Attributes:
        architectures: Architectures of the networks that learn, one each.
        pretrained: Start from ImageNet weights.
        epochs: Passes over the images, without what is left of a last batch.
        batch_size: Images of a step.
        lr: SGD's learning rate at the start.
        momentum: SGD's momentum.
        weight_decay: Factor of the parameters that is added to their gradient.
        seed: Seed of first weights and order.
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


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """A classifier that a target was distilled into. architecture: a row of the classifier table."""

    architecture: str
    classes: int

    def __post_init__(self) -> None:
        require_choice("student: architecture", self.architecture, tuple(LEAST))
        require_count("student: classes", self.classes, 2, 2**20)


@dataclass(frozen=True, kw_only=True)
class Distillation(DistilledBySGD, Shared):
    """How LOMMA's students are made of the public images and the target's scores; the rate halves every 20 epochs.

    temperature: what logits are divided by, in both softmaxes.

    The rest is described with `DistilledBySGD`. Protocol `paper` trains an epoch less: the
    published students are those of a file that is named after the epoch which begins when it is written.
    """

    KEY: ClassVar[str] = "attack.students"

    architectures: tuple[str, ...] = ("efficientnet_b0", "efficientnet_b1", "efficientnet_b2")
    temperature: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_workers(self.KEY)

    def steps(self, public: int, protocol: str) -> int:
        """Steps of a student's training. Raises InputError for less than a batch of public images."""
        require(
            public >= self.batch_size,
            "public",
            f"at least attack.students.batch_size ({self.batch_size}) images",
            public,
        )
        epochs = self.epochs if protocol == "clean" else max(1, self.epochs - 1)
        return epochs * (public // self.batch_size)

    def lr_at(self, epoch: int) -> float:
        """The rate in a zero-based epoch."""
        return self.lr * 0.5 ** (epoch // 20)
