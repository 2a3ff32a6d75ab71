"""The settings of a training, apart from data, loss and seed. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Beta, Count, Fraction, NotNegative, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.declared import check_fields
from smoothsweep.core.models.architectures import Architecture as Architecture

if TYPE_CHECKING:
    import torch

LEAST_OF_A_WORKER = 2
"""Images of a batch that every worker gets: BatchNorm cannot train on one."""

USUAL_MARKS = (0.75, 0.9)

BatchSize = Annotated[Count, Ge(2)]
ImageSize = Annotated[int, Ge(16), Le(1024)]
Optimizer = Literal["adam", "sgd"]
LrSchedule = Literal["multistep", "cosine"]
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """How a classifier is trained. The types say what a sweep file may ask for; its schema is derived from them.

    What the chosen optimizer or schedule does not have must stay at its default.

    Attributes:
        architecture: Name of the network.
        epochs: Passes over the training images.
        batch_size: Images per step, over all workers together.
        optimizer: `adam` or `sgd`.
        lr: Learning rate at the start.
        betas: Betas of adam, its two decay rates.
        momentum: Momentum of sgd alone.
        weight_decay: Factor of the parameters that is added to their gradient.
        lr_schedule: How the learning rate falls, at milestones or along a cosine.
        lr_milestones: Fractions of the training in (0, 1), ascending, after which the rate is multiplied by lr_factor,
            with `multistep`.
        lr_factor: Factor at each milestone, with `multistep`.
        lr_min: Learning rate at the end, with `cosine`.
        image_size: Side in pixels that the network sees.
        augmentation: Random changes of the training images; None trains on them as they are.
        precision: `fp32`, or `bf16` for a network that computes under autocast (weights, optimizer, loss and evaluation
            stay fp32).
    """

    architecture: Architecture = "resnet_small"
    epochs: Count = 40
    batch_size: BatchSize = 128
    optimizer: Optimizer = "adam"
    lr: Positive = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    momentum: Beta = 0.0
    weight_decay: NotNegative = 0.0
    lr_schedule: LrSchedule = "multistep"
    lr_milestones: tuple[Fraction, ...] = USUAL_MARKS
    lr_factor: Positive = 0.1
    lr_min: NotNegative = 0.0
    image_size: ImageSize = 64
    augmentation: Augmentation | None = field(default_factory=Augmentation)
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        check_fields(self, "training ")
        if self.optimizer == "adam":
            require(self.momentum == 0, "training momentum", "0 with optimizer adam", self.momentum)
        else:
            default = self.betas == (0.9, 0.999)
            require(default, "training betas", "the default with optimizer sgd", self.betas)
        self._check_schedule()

    def _check_schedule(self) -> None:
        marks, what = self.lr_milestones, "training lr_milestones"
        if marks != USUAL_MARKS:
            require(all(a < b for a, b in pairwise(marks)), what, "ascending fractions", marks)
            require(all(0 < m < 1 for m in marks), what, "fractions of the training in (0, 1)", marks)
        if self.lr_schedule == "cosine":
            require(self.lr_min <= self.lr, "training lr_min", f"a number in [0, {self.lr}]", self.lr_min)
            default = (marks, self.lr_factor) == (USUAL_MARKS, 0.1)
            require(default, what, "the default, and so lr_factor, with lr_schedule cosine", marks)
        else:
            require(self.lr_min == 0, "training lr_min", "0 with lr_schedule multistep", self.lr_min)


def learning_rate(recipe: TrainingRecipe, epoch: int) -> float:
    """The rate of a zero-based epoch; a pure function, so that resuming needs no scheduler state.

    A milestone of 0.75 in 100 epochs takes effect with epoch 75; one that falls between epochs waits for the
    next.
    """
    if recipe.lr_schedule == "cosine":
        swing = (1 + math.cos(math.pi * epoch / recipe.epochs)) / 2
        return recipe.lr_min + (recipe.lr - recipe.lr_min) * swing
    passed = sum(epoch >= math.ceil(mark * recipe.epochs - 1e-9) for mark in recipe.lr_milestones)
    return recipe.lr * recipe.lr_factor**passed


def make_optimizer(parameters: Iterable[torch.nn.Parameter], recipe: TrainingRecipe) -> torch.optim.Optimizer:
    """The recipe's optimizer; the fused kernels give the same numbers in far fewer calls."""
    import torch

    common: dict[str, Any] = {"lr": recipe.lr, "weight_decay": recipe.weight_decay, "fused": True}
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, betas=recipe.betas, **common)
    return torch.optim.SGD(parameters, momentum=recipe.momentum, **common)
