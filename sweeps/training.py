"""The training part of a sweep file: targets with their defense, evaluators, surrogates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from smoothsweep.core.analysis.backdoors import PoisonSettings
from smoothsweep.core.bounds import Count
from smoothsweep.core.data.augmentation_settings import Augmentation as AugmentationSettings
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT, check_image_size
from smoothsweep.core.models.recipe import Architecture, ImageSize, TrainingRecipe
from smoothsweep.sweeps.base import Model, derived, only_with
from smoothsweep.sweeps.defenses import Defense, LabelSmoothing

DEPENDENT = ("betas", "momentum", "lr_milestones", "lr_factor", "lr_min", "precision")
"""Keys that belong to one optimizer or schedule, or whose default is older than the key: null unless said."""


class Augmentation(derived(AugmentationSettings, without=("shared",))):
    """Per-image training augmentation; the defaults are the paper's Appendix B.3."""

    @cached_property
    def built(self) -> AugmentationSettings:
        """The settings themselves. Raises InputError where their class refuses the values."""
        return AugmentationSettings(**self.model_dump())

    @model_validator(mode="after")
    def _can_be_drawn(self) -> Augmentation:
        assert self.built is not None  # asked again whenever a recipe is made with it, and made once
        return self


class Training(derived(TrainingRecipe, without=("augmentation",), optional=DEPENDENT)):
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
        only_with(self, "transform_input", "architecture", TRANSFORMS_INPUT)
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


def _number_or_trial(raw: Any) -> str:
    return "another_trial" if isinstance(raw, dict | OtherTrial) else "a_number"


Goal = Annotated[
    Annotated[float, Field(gt=0, le=1), Tag("a_number")] | Annotated[OtherTrial, Tag("another_trial")],
    Discriminator(_number_or_trial),
]
"""A test accuracy, said or that of another trial."""


class Poison(derived(PoisonSettings)):
    """A backdoor in the training set (the paper's Table 12)."""

    @cached_property
    def built(self) -> PoisonSettings:
        """The settings themselves. Raises InputError where their class refuses the values."""
        return PoisonSettings(**self.model_dump())

    @model_validator(mode="after")
    def _valid(self) -> Poison:
        assert self.built is not None
        return self


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
    def _enough_per_worker(self) -> Recipe:
        if self.batch_size < 2 * self.workers:
            minimum = 2 * self.workers
            raise ValueError(f"batch_size: expected at least 2 images per worker ({minimum}), got {self.batch_size}")
        return self

    @model_validator(mode="after")
    def _poison_applies(self) -> Recipe:
        if self.poison is not None:
            if self.workers > 1:
                raise ValueError(f"workers: expected 1 with poison, got {self.workers}")
            try:
                self.poison.built.check_image_size(self.image_size)
            except InputError as error:
                raise ValueError(f"poison.{error}") from None
        return self

    @model_validator(mode="after")
    def _defense_applies(self) -> Recipe:
        self.defense.check_recipe(self)
        if self.defense.alone is not None and self.workers > 1:
            raise ValueError(f"workers: expected 1 with {self.defense.kind}: {self.defense.alone}, got {self.workers}")
        if self.defense.leaves != "gradients" and self.stop_at_test_acc is not None:
            expected = f"expected none with {self.defense.kind}, which alters answers after the training"
            raise ValueError(f"stop_at_test_acc: {expected}, got {self.stop_at_test_acc}")
        return self
