"""Images that a defense holds out from the training, and what it learns of them last."""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.training.batches import Stamp, held_out_generator


def without_held_out(
    defense: Defense, data: ImageSet, stamp: Stamp | None, seed: int
) -> tuple[ImageSet, Stamp | None, ImageSet | None]:
    """The images to train on and what is stamped on them; and those that the defense holds out, unless stamped.

    Raises InputError where the defense could learn nothing of these.
    """
    chosen = None if stamp is None else stamp.chosen
    back, clean = held_out_rows(defense, data.labels, chosen, classes=data.num_classes, seed=seed)
    if back is None or clean is None:
        return data, stamp, None
    trained = torch.ones(len(data), dtype=torch.bool).scatter(0, back, False).nonzero().squeeze(1)
    return data.subset(trained), stamp.of(trained) if stamp is not None else None, data.subset(clean)


def held_out_rows(
    defense: Defense, labels: Tensor, stamped: Tensor | None, *, classes: int, seed: int
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The rows that the defense holds out, and those of them without a stamp; it needs no image.

    labels: int64 [N], of training images; stamped: bool [N]. Raises InputError where the defense could learn nothing.
    """
    back = defense.hold_out(labels, held_out_generator(seed))
    if back is None:
        return None, None
    clean = back if stamped is None else back[~stamped[back]]
    defense.check_held_out(labels[clean], classes)
    return back, clean


def fit_held_out(
    defense: Defense, model: Classifier, back: ImageSet | None, *, image_size: int, device: torch.device | str
) -> None:
    """What the defense learns from the images that it held out, once the training is over; nothing without any."""
    if back is not None:
        defense.fit(model, evaluate_logits(model, back.images, image_size=image_size, device=device), back.labels)
