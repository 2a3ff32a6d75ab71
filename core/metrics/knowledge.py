"""Knowledge extraction score: what the reconstructions alone can teach about the private classes.

A surrogate classifier is trained on the reconstructions; its accuracy on the target's real training and
test images is the score (paper section 4.1; knowledge_extraction_score.py and datasets/attack_latents.py of
LukasStruppek/Plug-and-Play-Attacks). This file has the recipe and the scoring; the training is that of any
classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.data.augmentation import Augmentation
from core.errors import InputError
from core.metrics.accuracy import top1_accuracy
from core.models.recipe import TrainingRecipe


@dataclass(frozen=True, kw_only=True)
class KnowledgeRecipe:
    """How the surrogate is trained. The defaults are the official ones.

    Plain cross entropy, SGD, learning rate on a cosine from `lr` to `lr_min` stepped once per epoch, last
    epoch's weights, short last batch kept. Augmentation in this order: crop with area share in `crop_scale`
    and aspect in `crop_ratio`, resized back, mirrored with probability `flip`, clipped to [-1, 1].
    pretrained: start from ImageNet weights.

    protocol: "paper" and "clean" differ in two things, see KNOWLEDGE_RECIPES.
    shared_draws: one crop and one mirror decision for the whole batch (paper), or one per image (clean).
    keep_fitting_head: go on from the ImageNet head if there happen to be 1000 classes (paper), or always
    start with a fresh head (clean).

    The official code also counts labels off in blocks of rows. Wherever that is right (every class
    attacked, in order, with equally many results) it equals the stored targets, so both protocols use
    those.
    """

    protocol: str
    architecture: str = "resnet50"
    pretrained: bool = True
    epochs: int = 75
    batch_size: int = 32
    lr: float = 0.1
    lr_min: float = 1e-4
    momentum: float = 0.9
    weight_decay: float = 1e-4
    crop_scale: tuple[float, float] = (0.8, 1.0)
    crop_ratio: tuple[float, float] = (1.0, 1.0)
    flip: float = 0.5
    shared_draws: bool = False
    keep_fitting_head: bool = False

    def __post_init__(self) -> None:
        if self.protocol not in ("paper", "clean"):
            raise InputError(f"knowledge recipe: protocol: expected paper or clean, got {self.protocol!r}")
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"knowledge recipe: {name}: expected at least 1, got {getattr(self, name)}")
        if not 0 <= self.lr_min <= self.lr:
            raise InputError(f"knowledge recipe: expected 0 <= lr_min <= lr, got {self.lr_min}, {self.lr}")
        if not 0 < self.crop_scale[0] <= self.crop_scale[1] <= 1:
            raise InputError(f"knowledge recipe: crop_scale: expected a range in (0, 1], got {self.crop_scale}")
        if not 0 <= self.flip <= 1:
            raise InputError(f"knowledge recipe: flip: expected a probability, got {self.flip}")


KNOWLEDGE_RECIPES: dict[str, KnowledgeRecipe] = {
    "clean": KnowledgeRecipe(protocol="clean"),
    "paper": KnowledgeRecipe(protocol="paper", shared_draws=True, keep_fitting_head=True),
}


def training_recipe(recipe: KnowledgeRecipe, *, image_size: int = 224) -> TrainingRecipe:
    """The settings with which `train_classifier` trains the surrogate, on the loot as an `ImageSet`.

    image_size: side in pixels; the published surrogate is trained and evaluated at exactly 224. The loot may be uint8
    (clean) or unclipped floats (paper); training clips those after crop and mirror. The loss is plain cross entropy.
    What belongs to the network and not to its training is `surrogate_options`.
    """
    augmentation = Augmentation.none().replace(
        crop_scale=recipe.crop_scale, crop_ratio=recipe.crop_ratio, flip=recipe.flip, shared=recipe.shared_draws
    )
    return TrainingRecipe(
        architecture=recipe.architecture, epochs=recipe.epochs, batch_size=recipe.batch_size, optimizer="sgd",
        lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay, lr_schedule="cosine",
        lr_min=recipe.lr_min, image_size=image_size, augmentation=augmentation,
    )  # fmt: skip


def surrogate_options(recipe: KnowledgeRecipe) -> dict[str, Any]:
    """Arguments of `build_classifier` beside the number of classes and the seed."""
    return {
        "architecture": recipe.architecture,
        "pretrained": recipe.pretrained,
        "protocol": "paper" if recipe.keep_fitting_head else "clean",
    }


def score_surrogate(
    logits_train: Tensor,
    labels_train: Tensor,
    logits_test: Tensor,
    labels_test: Tensor,
    *,
    attacked: Tensor | None = None,
) -> dict[str, float]:
    """Top-1 accuracies of the surrogate on the target's real images: {"xi_train", "xi_test"} in [0, 1].

    logits_*: float [N, C] of the surrogate on the target's training and test split; labels_*: int64 [N].
    attacked: int64 classes that the surrogate has seen; rows of other classes, which it cannot know, are left
    out. None: all classes were attacked. Raises InputError if a split then has no image.
    """
    scores = {}
    for split, logits, labels in (("train", logits_train, labels_train), ("test", logits_test, labels_test)):
        if attacked is not None:
            known = torch.isin(labels, attacked.to(labels.device))
            logits, labels = logits[known], labels[known]
        if not len(labels):
            raise InputError(f"knowledge extraction: no image of an attacked class in the {split} split")
        scores[f"xi_{split}"] = top1_accuracy(logits, labels)
    return scores
