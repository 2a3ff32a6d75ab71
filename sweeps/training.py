"""The training part of a sweep file: targets with their defense, evaluators, surrogates."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from core.defenses.schedules import AlphaSchedule, schedule_parameters, validate_schedule
from sweeps.base import Beta, Count, Fraction, Model, Positive, Range, only_with

Architecture = Literal[
    "resnet_small", "vgg_small", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50",
    "densenet121", "densenet169", "vit_b_16", "inception_v3",
]  # fmt: skip


class Augmentation(Model):
    """Per-image training augmentation; the defaults are the paper's Appendix B.3."""

    crop_scale: Range = (0.85, 1.0)
    crop_ratio: Range = (1.0, 1.0)
    brightness: Annotated[float, Field(ge=0)] = 0.2
    contrast: Annotated[float, Field(ge=0)] = 0.2
    saturation: Annotated[float, Field(ge=0)] = 0.1
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    flip: Fraction = 0.5

    @model_validator(mode="after")
    def _ordered(self) -> Augmentation:
        for name in ("crop_scale", "crop_ratio"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name}: expected 0 < low <= high, got [{low}, {high}]")
        return self


class Training(Model):
    """How one classifier is trained; the defaults are the paper's 224-pixel recipe (Appendix B.3)."""

    architecture: Architecture = "resnet152"
    pretrained: bool = True  # ImageNet weights from the local torch hub cache
    image_size: Annotated[int, Field(ge=16, le=1024)] = 224
    transform_input: bool | None = None  # inception_v3 only: map inputs to ImageNet statistics first; default false
    epochs: Count = 100
    batch_size: Annotated[int, Field(ge=2)] = 128  # global: over all workers
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: Positive = 0.001
    betas: tuple[Beta, Beta] | None = None  # adam only
    momentum: Beta | None = None  # sgd only
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    lr_schedule: Literal["multistep", "cosine"] = "multistep"
    lr_milestones: tuple[Fraction, ...] | None = None  # fractions of training; multistep only, default (0.75, 0.9)
    lr_factor: Positive | None = None  # multistep only, default 0.1
    lr_min: Annotated[float, Field(ge=0)] | None = None  # cosine only, default 0
    precision: Literal["fp32", "bf16"] | None = None  # of the network's passes; null: fp32, as the paper
    augmentation: Augmentation = Augmentation()

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Training:
        only_with(self, "transform_input", "architecture", "inception_v3")
        only_with(self, "betas", "optimizer", "adam")
        only_with(self, "momentum", "optimizer", "sgd")
        only_with(self, "lr_milestones", "lr_schedule", "multistep")
        only_with(self, "lr_factor", "lr_schedule", "multistep")
        only_with(self, "lr_min", "lr_schedule", "cosine")
        marks = self.lr_milestones or ()
        if not all(0 < mark < 1 for mark in marks) or list(marks) != sorted(set(marks)):
            raise ValueError(f"lr_milestones: expected ascending fractions of training in (0, 1), got {list(marks)}")
        if self.lr_min is not None and self.lr_min > self.lr:
            raise ValueError(f"lr_min: expected at most lr ({self.lr}), got {self.lr_min}")
        return self


class Schedule(Model):
    """How alpha moves over training. Which keys a kind takes is checked by core.defenses.schedules."""

    kind: Literal["constant", "reference", "ramp", "linear", "cosine", "step", "piecewise"] = "constant"
    start: Fraction | None = None
    end: Fraction | None = None
    at: Fraction | None = None
    scaled: bool | None = None
    points: tuple[tuple[Fraction, float], ...] | None = None

    @model_validator(mode="after")
    def _valid(self) -> Schedule:
        validate_schedule(AlphaSchedule(**self.model_dump()))
        return self

    def resolved(self) -> dict[str, Any]:
        return {"kind": self.kind, **schedule_parameters(AlphaSchedule(**self.model_dump()))}


class LabelSmoothing(Model):
    """Label smoothing by alpha in (-inf, 1]: 0 is plain training, below 0 the paper's defense.

    schedule: how alpha gets there. null is constant for alpha >= 0, and for negative alpha what the paper describes
    (none in the first half, a smooth ramp up to three quarters of training) or, under protocol paper, what its code
    does.
    """

    kind: Literal["label_smoothing"] = "label_smoothing"
    alpha: float | None = None  # null: the last point of a piecewise schedule, else 0
    schedule: Schedule | None = None

    @field_validator("alpha")
    @classmethod
    def _at_most_one(cls, value: float | None) -> float | None:
        if value is not None and (not math.isfinite(value) or value > 1):
            raise ValueError(f"expected a number in (-inf, 1], got {value}")
        return value

    @model_validator(mode="after")
    def _agrees_with_points(self) -> LabelSmoothing:
        points = self.schedule.points if self.schedule else None
        if points and self.alpha is not None and self.alpha != points[-1][1]:
            raise ValueError(f"alpha: expected the last point's value ({points[-1][1]}) or none, got {self.alpha}")
        for _, alpha in points or ():
            self._at_most_one(alpha)
        return self

    @property
    def final_alpha(self) -> float:
        if self.alpha is not None:
            return self.alpha
        return self.schedule.points[-1][1] if self.schedule and self.schedule.points else 0.0

    def resolved(self, protocol: str) -> dict[str, Any]:
        """Everything that decides the curve, defaults filled in: what a fingerprint and a worker need."""
        alpha = self.final_alpha
        negative = Schedule(kind="reference") if protocol == "paper" else Schedule(kind="ramp")
        schedule = self.schedule or (negative if alpha < 0 else Schedule(kind="constant"))
        if alpha == 0 and schedule.points is None:
            schedule = Schedule(kind="constant")  # every path from 0 to 0 is the same training
        return {"kind": self.kind, "alpha": alpha, "schedule": schedule.resolved()}


class Recipe(Training):
    """How the target is trained. `workers` > 1 trains with Ray Train; BatchNorm makes it a different experiment."""

    defense: LabelSmoothing = LabelSmoothing()
    workers: Count = 1
    checkpoint_every: Count = 10  # epochs; a lost worker costs at most this much

    @model_validator(mode="after")
    def _enough_per_worker(self) -> Recipe:
        if self.batch_size < 2 * self.workers:
            least = 2 * self.workers
            raise ValueError(f"batch_size: expected at least 2 images per worker ({least}), got {self.batch_size}")
        return self


class Evaluator(Training):
    """The paper's judge: another architecture trained on the same private data."""

    architecture: Architecture = "inception_v3"
    image_size: Annotated[int, Field(ge=16, le=1024)] = 299
    seed: int = 1000
    checkpoint_every: Count = 10


class Knowledge(Training):
    """The surrogate trained on the loot; the defaults are the official ones (core.metrics.knowledge.KnowledgeRecipe).

    With sgd momentum defaults to 0.9, with the cosine schedule lr_min to 1e-4.
    """

    architecture: Architecture = "resnet50"
    epochs: Count = 75
    batch_size: Annotated[int, Field(ge=2)] = 32
    optimizer: Literal["adam", "sgd"] = "sgd"
    lr: Positive = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    lr_schedule: Literal["multistep", "cosine"] = "cosine"
    augmentation: Augmentation = Augmentation(
        crop_scale=(0.8, 1.0), brightness=0, contrast=0, saturation=0, hue=0
    )
    seed: int = 2000
    checkpoint_every: Count = 25

    @model_validator(mode="before")
    @classmethod
    def _official_where_they_apply(cls, given: Any) -> Any:
        """Defaults that belong to one optimizer or schedule, so that choosing another does not clash with them."""
        if not isinstance(given, dict):
            return given
        defaults: dict[str, float] = {}
        if given.get("optimizer", "sgd") == "sgd":
            defaults["momentum"] = 0.9
        if given.get("lr_schedule", "cosine") == "cosine":
            defaults["lr_min"] = 1e-4
        return {**defaults, **given}
