"""The defense of a sweep file: label smoothing, or one of core/defenses with a smoothing of its own.

The keys of a defense are the fields of its dataclass, and what they may be is checked by that class: a new defense
needs nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, PlainValidator, SerializeAsAny, Tag, field_validator, model_validator

from smoothsweep.core.analysis.backdoors import PoisonSettings
from smoothsweep.core.bounds import SINGLE, Count
from smoothsweep.core.data.augmentation_settings import Augmentation as AugmentationSettings
from smoothsweep.core.defenses.base import Defense as CoreDefense
from smoothsweep.core.defenses.labels import SMOOTHING
from smoothsweep.core.defenses.registry import DEFENSES, make_defense
from smoothsweep.core.defenses.schedules import AlphaSchedule, schedule_parameters, usual_schedule, validate_schedule
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT, check_image_size
from smoothsweep.core.models.recipe import Architecture, ImageSize, TrainingRecipe
from smoothsweep.core.plugins import plugin_version, refuse_broken
from smoothsweep.sweeps.base import Built, Model, derived, one_value, only_with


class Schedule(derived(AlphaSchedule)):
    """How alpha moves over training."""

    @model_validator(mode="after")
    def _valid(self) -> Schedule:
        validate_schedule(AlphaSchedule(**self.model_dump()))
        return self

    def resolved(self) -> dict[str, Any]:
        """The kind and the parameters it reads, defaults filled in."""
        return {"kind": self.kind, **schedule_parameters(AlphaSchedule(**self.model_dump()))}


class Smoothing(Model):
    """Label smoothing by alpha in (-inf, 1]: 0 is plain training, below 0 the paper's defense.

    Attributes:
        alpha: The smoothing factor, at most 1, that the schedule leads to; null: the last point of a piecewise
            schedule, else 0.
        schedule: How alpha moves over training; null: constant for alpha >= 0; for negative alpha 0 in the first half
            and a smooth ramp up to three quarters, as the paper says, or under protocol paper as its code does.
    """

    alpha: float | None = None
    schedule: Schedule | None = None

    @field_validator("alpha")
    @classmethod
    def _at_most_one(cls, value: float | None) -> float | None:
        if value is not None and (not math.isfinite(value) or value > 1):
            raise ValueError(f"expected a number in (-inf, 1], got {value}")
        if value is not None and value < -SINGLE:
            raise ValueError(f"expected at least -{SINGLE:g}, which single precision holds, got {value}")
        return value

    @model_validator(mode="after")
    def _agrees_with_points(self) -> Smoothing:
        points = self.schedule.points if self.schedule else None
        if points and self.alpha is not None and self.alpha != points[-1][1]:
            raise ValueError(f"alpha: expected the last point's value ({points[-1][1]}) or none, got {self.alpha}")
        for _, alpha in points or ():
            self._at_most_one(alpha)
        return self

    @property
    def final_alpha(self) -> float:
        """Where the smoothing leads to: a schedule with `back` leaves it again before the training ends."""
        if self.alpha is not None:
            return self.alpha
        return self.schedule.points[-1][1] if self.schedule and self.schedule.points else 0.0

    @property
    def is_none(self) -> bool:
        """Whether no epoch is smoothed."""
        points = self.schedule.points if self.schedule else None
        return not any(alpha for _, alpha in points) if points else self.final_alpha == 0

    def curve(self, protocol: str) -> dict[str, Any]:
        """Everything that decides the curve, defaults filled in: alpha and schedule."""
        alpha = self.final_alpha
        as_coded = protocol == "paper" and alpha < 0
        schedule = self.schedule or Schedule(kind="reference" if as_coded else usual_schedule(alpha))
        if alpha == 0 and schedule.points is None:
            schedule = Schedule(kind="constant")  # every path from 0 to 0 is the same training
        return {"alpha": alpha, "schedule": schedule.resolved()}


class LabelSmoothing(Smoothing):
    """Label smoothing and no other defense."""

    kind: Literal["label_smoothing"] = "label_smoothing"

    parameters: ClassVar[Mapping[str, Any]] = {}  # none beside the smoothing
    built: ClassVar[CoreDefense] = make_defense(SMOOTHING)

    def resolved(self, protocol: str) -> dict[str, Any]:
        """What a fingerprint and a worker need."""
        return {"kind": self.kind, **self.curve(protocol)}


class OtherDefense(Model):
    """A defense of core/defenses. Its parameters are added by `defense_model`, and checked by the class itself.

    smoothing: label smoothing beside the defense; null: none.
    """

    kind: str
    smoothing: Smoothing | None = None

    @model_validator(mode="after")
    def _valid(self) -> OtherDefense:
        reason = self.built.combines_with_smoothing
        if reason is not None and not (self.smoothing or Smoothing()).is_none:
            raise ValueError(f"smoothing: expected none with {self.kind}: {reason}")
        return self

    @cached_property
    def built(self) -> CoreDefense:
        """The defense itself. Raises InputError where its class refuses the values."""
        return make_defense(self.kind, **self.parameters)

    @property
    def final_alpha(self) -> float:
        """Where the smoothing ends."""
        return (self.smoothing or Smoothing()).final_alpha

    @property
    def parameters(self) -> dict[str, Any]:
        """The defense's own, defaults filled in; without those that are null."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"kind", "smoothing"})

    def resolved(self, protocol: str) -> dict[str, Any]:
        """What a fingerprint and a worker need: kind, parameters, alpha, schedule."""
        smoothing = (self.smoothing or Smoothing()).curve(protocol)
        settings = {"kind": self.kind, "parameters": self.parameters, **smoothing}
        revision = {} if self.built.revision == 1 else {"revision": self.built.revision}
        return settings | plugin_version("defenses", self.kind) | revision


@cache
def defense_model(kind: str) -> type[LabelSmoothing | OtherDefense]:
    if kind == SMOOTHING:
        return LabelSmoothing
    return derived(DEFENSES[kind], OtherDefense, more={"kind": (one_value(kind), kind)})


def read_defense(raw: Any) -> LabelSmoothing | OtherDefense:
    """What stands under `defense` in a file, checked by the model of its kind.

    Raises ValueError for an unknown kind or key, pydantic's error for values of the wrong type.
    """
    if isinstance(raw, LabelSmoothing | OtherDefense):
        return raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"expected keys such as kind and its parameters, got {raw!r}")
    kind = raw.get("kind", SMOOTHING)
    refuse_broken("defenses", kind)
    if not isinstance(kind, str) or kind not in DEFENSES:
        raise ValueError(f"kind: expected one of {', '.join(DEFENSES)}, got {kind!r}")
    return defense_model(kind).model_validate(raw)


Defense = Annotated[SerializeAsAny[LabelSmoothing | OtherDefense], PlainValidator(read_defense)]
"""The type of a recipe's `defense`: chosen by `kind`."""


DEPENDENT: dict[str, tuple[Any, str, str]] = {
    "transform_input": (False, "architecture", TRANSFORMS_INPUT),
    "betas": ([0.9, 0.999], "optimizer", "adam"),
    "momentum": (0.0, "optimizer", "sgd"),
    "lr_milestones": ([0.75, 0.9], "lr_schedule", "multistep"),
    "lr_factor": (0.1, "lr_schedule", "multistep"),
    "lr_min": (0.0, "lr_schedule", "cosine"),
    "precision": ("fp32", "", ""),
}
"""Keys that are null unless said -> what null stands for, and the choice that it belongs to, if any."""


class Augmentation(derived(AugmentationSettings, Built, without=("shared",))):
    """Per-image training augmentation; the defaults are the paper's Appendix B.3."""


class Training(derived(TrainingRecipe, without=("augmentation",), optional=tuple(DEPENDENT)[1:])):
    """How one classifier is trained; the defaults are the paper's 224-pixel recipe (Appendix B.3).

    Attributes:
        architecture: The network; inception_v3 trains with its auxiliary head.
        epochs: Passes over the training images.
        pretrained: Start from ImageNet weights, from the local torch hub cache.
        transform_input: inception_v3 only: map inputs to ImageNet statistics first; null: do not.
        augmentation: Random changes of every training image.
    """

    architecture: Architecture = "resnet152"
    image_size: ImageSize = 224
    epochs: Count = 100
    pretrained: bool = True
    transform_input: bool | None = None
    augmentation: Augmentation = Augmentation()

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Training:
        check_image_size(self.architecture, self.image_size)
        for key, (_, chooser, choice) in DEPENDENT.items():
            if chooser:
                only_with(self, key, chooser, choice)
        marks = self.lr_milestones or ()
        if not all(0 < mark < 1 for mark in marks) or list(marks) != sorted(set(marks)):
            raise ValueError(f"lr_milestones: expected ascending fractions of training in (0, 1), got {list(marks)}")
        if self.lr_min is not None and self.lr_min > self.lr:
            raise ValueError(f"lr_min: expected at most lr ({self.lr}), got {self.lr_min}")
        return self


class OtherTrial(Model):
    """Another trial of the same sweep and seed, named by what differs from this one.

    trial: dotted key -> value, the settings in which it differs.
    """

    trial: Annotated[dict[str, Any], Field(min_length=1)]

    @property
    def words(self) -> str:
        """`alpha -0.05`: what it has otherwise, in a few words."""
        return trial_words(self.trial)


def trial_words(trial: Mapping[str, Any]) -> str:
    """Dotted keys and values of another trial as a table calls it: 0 for 0.0."""
    values = {key: f"{value:g}" if isinstance(value, float) else value for key, value in trial.items()}
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.items())


Goal = Annotated[
    Annotated[float, Field(gt=0, le=1), Tag("a_number")] | Annotated[OtherTrial, Tag("another_trial")],
    Discriminator(lambda raw: "another_trial" if isinstance(raw, dict | OtherTrial) else "a_number"),
]
"""A test accuracy, said or that of another trial."""


class Poison(derived(PoisonSettings, Built)):
    """A backdoor in the training set (the paper's Table 12)."""

    beside: ClassVar[tuple[str, ...]] = ()


class Recipe(Training):
    """How the target is trained.

    Attributes:
        defense: What is done beyond plain training so that less leaks, by `kind`.
        workers: Processes that share every batch; above 1 they train with Ray Train, and BatchNorm makes it a different
            experiment.
        checkpoint_every: Epochs between two checkpoints; a crash costs at most this much.
        stop_at_test_acc: End with the first epoch of this test accuracy (a fraction), or of the one that another trial
            reached (the paper's Table 9).
    """

    defense: Defense = LabelSmoothing()
    workers: Count = 1
    checkpoint_every: Count = 10
    stop_at_test_acc: Goal | None = None
    poison: Poison | None = None  # plant a backdoor: some training images get a trigger and another label

    @property
    def stated_defense(self) -> dict[str, Any]:
        """The defense as the file says it, with the alpha that its smoothing leads to."""
        return self.defense.model_dump(mode="json") | {"alpha": self.defense.final_alpha}

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        if self.batch_size < 2 * self.workers:
            minimum = 2 * self.workers
            raise ValueError(f"batch_size: expected at least 2 images per worker ({minimum}), got {self.batch_size}")
        if self.poison is not None:
            if self.workers > 1:
                raise ValueError(f"workers: expected 1 with poison, got {self.workers}")
            try:
                self.poison.built.check_image_size(self.image_size)
            except InputError as error:
                raise ValueError(f"poison.{error}") from None
        kind, built = self.defense.kind, self.defense.built
        built.check(self.architecture)
        known = {field.name for field in fields(TrainingRecipe)} - {"augmentation"}
        built.adjust_recipe(TrainingRecipe(**self.model_dump(exclude_none=True, include=known)))
        if built.alone is not None and self.workers > 1:
            raise ValueError(f"workers: expected 1 with {kind}: {built.alone}, got {self.workers}")
        if built.leaves != "gradients" and self.stop_at_test_acc is not None:
            expected = f"expected none with {kind}, which alters answers after the training"
            raise ValueError(f"stop_at_test_acc: {expected}, got {self.stop_at_test_acc}")
        return self
