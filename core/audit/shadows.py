"""Shadow models in memory: the networks that an attacker trains to compare a model's scores with theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from smoothsweep.core.audit.attacking import OnProgress, ignore_progress
from smoothsweep.core.audit.references import PLAIN
from smoothsweep.core.audit.training import TRAINING, BuiltDefense, build_defense, trained_network
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import Flags, Numbers, check_part, check_shadows, inside_part, shadow_seed
from smoothsweep.core.membership.candidates import scores_of
from smoothsweep.core.models.architectures import check_image_size
from smoothsweep.core.models.recipe import TrainingRecipe

SHARE = Membership.share
"""Fraction of every class's images that a shadow model is trained on."""


@dataclass(frozen=True, kw_only=True)
class ShadowRecipe:
    """How many shadow models to train, and how.

    Attributes:
        recipe: How the network is trained.
        defended: The defense that it is trained under.
    """

    count: int
    recipe: TrainingRecipe
    defended: BuiltDefense

    @property
    def words(self) -> str:
        """The network and its epochs."""
        return f"{self.recipe.architecture}, {self.recipe.epochs} epochs"


def shadow_recipe(count: int, settings: Mapping[str, Any] | None, *, image_size: int) -> ShadowRecipe | None:
    """The recipe of `count` shadow models; None for none.

    given: the architecture, and fields of a sweep's recipe, also its defense, that differ from the training of
    `smoothsweep audit --reference`. image_size: side of the model's input, in pixels. Raises InputError.
    """
    check_shadows(count, "shadows")
    if not count:
        if settings is not None:
            raise InputError("shadow_recipe: expected none without shadow models, got one with shadows=0")
        return None
    if settings is None or "architecture" not in settings:
        raise InputError(
            'shadow_recipe: expected the shadow models\' network, such as {"architecture": "resnet18"}, got none'
        )
    fields = {name: value for name, value in settings.items() if name != "defense"}
    recipe = build(
        TrainingRecipe, {"image_size": image_size, **TRAINING, **fields}, what="shadow_recipe", prefix="shadow_recipe "
    )
    check_image_size(recipe.architecture, recipe.image_size)
    return ShadowRecipe(count=count, recipe=recipe, defended=build_defense(settings.get("defense", PLAIN)))


def check_images(images: ImageSet) -> None:
    """Raise InputError where a class has too few images for a shadow model's half."""
    counts = np.bincount(images.labels.numpy(), minlength=images.num_classes)
    check_part(tuple(int(count) for count in counts), SHARE, "shadows")


def train_shadows(
    images: ImageSet,
    shadows: ShadowRecipe,
    *,
    seed: int,
    device: torch.device | str,
    on_progress: OnProgress = ignore_progress,
) -> list[tuple[Numbers, Flags]]:
    """Train shadow models: each one's log odds of the true class [2, n], and which images it was trained on, bool [n].

    images: members and others, of which each model is trained on a seeded half. The networks are discarded. They are
    the same models as those of a sweep with this recipe.
    """
    answers = []
    for number in range(shadows.count):
        seed_of_shadow = shadow_seed(seed, number)
        inside = inside_part(images.labels.numpy(), model=number, share=SHARE, seed=seed)

        def told(fraction: float, words: str, number: int = number) -> None:
            on_progress((number + fraction) / shadows.count, f"shadow model {number + 1} of {shadows.count}")

        network = trained_network(
            images.subset(torch.from_numpy(inside)),
            shadows.recipe,
            shadows.defended,
            seed=seed_of_shadow,
            device=device,
            on_progress=told,
        ).eval()
        shadows.defended.defense.seed_noise(network, seed_of_shadow)
        options: dict[str, Any] = {"image_size": shadows.recipe.image_size, "device": str(device)}
        answers.append((scores_of(network, images.images, images.labels, **options)[0], inside))
    return answers
