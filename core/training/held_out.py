"""Images that a defense keeps back from the training, and what it learns of them last."""

from __future__ import annotations

import torch
from torch import nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.training.batches import Stamp, keeping_back_generator


def without_kept_back(
    defense: Defense, data: ImageSet, stamp: Stamp | None, seed: int
) -> tuple[ImageSet, Stamp | None, ImageSet | None]:
    """The images to train on and what is stamped on them; and those that the defense keeps back, unless stamped."""
    back = defense.keep_back(data.labels, keeping_back_generator(seed))
    if back is None:
        return data, stamp, None
    trained = torch.ones(len(data), dtype=torch.bool).scatter(0, back, False).nonzero().squeeze(1)
    clean = back if stamp is None else back[~stamp.chosen[back]]
    return data.subset(trained), stamp.of(trained) if stamp is not None else None, data.subset(clean)


def learn_kept_back(
    defense: Defense, model: nn.Module, back: ImageSet | None, *, image_size: int, device: torch.device | str
) -> None:
    """What the defense learns from the images that it kept back, once the training is over; nothing without any."""
    if back is not None:
        defense.fit(model, evaluate_logits(model, back.images, image_size=image_size, device=device), back.labels)
