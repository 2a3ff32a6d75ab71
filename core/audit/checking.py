"""Checks before a model is attacked: what was asked for, and whether the model recognises its people."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from smoothsweep.core.audit.model import OpenModel
from smoothsweep.core.audit.pictures import People, has_split
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import Channels, Normalisation, evaluate_logits
from smoothsweep.core.models.reading import Claim, check_reading


def real_accuracy(model: OpenModel, test: ImageSet, reads: Normalisation) -> float:
    """The model's accuracy in [0, 1] on real test images.

    reads: the stated preprocessing. Raises InputError for another number of classes, an accuracy that chance may give,
    or where another usual preprocessing fits clearly better, which the message names.
    """
    if test.num_classes != model.num_classes:
        raise InputError(f"data: expected the model's {model.num_classes} classes, got {test.num_classes}")
    size, device = model.image_size, model.execution.device
    logits = evaluate_logits(model.asked, test.images, image_size=size, device=device)
    check_reading(
        model.asked,
        test,
        logits,
        Claim(normalisation=reads, order=torch.arange(test.num_classes)),
        orders={},
        image_size=size,
        device=device,
        where="model",
        then=_as_arguments,
    )
    return (logits.argmax(1) == test.labels).double().mean().item()


def _as_arguments(
    normalisation: Normalisation | None, reordered: bool, image_size: int | None = None, stated: Channels = "rgb"
) -> str:
    """The remedy in a message: which arguments of `Model` and which order of labels to use (see `check_reading`)."""
    fields = [] if image_size is None else [f"image_size={image_size}"]
    if normalisation is not None and normalisation.ends is not None:
        fields.append("input_range=({:g}, {:g})".format(*normalisation.ends))
    elif normalisation is not None:
        fields.append(f"mean={normalisation.mean} and std={normalisation.std}")
    if normalisation is not None and "bgr" in (normalisation.channels, stated):
        fields.append(f"channels={normalisation.channels!r}")
    advice = [f"say {' and '.join(fields)} to Model"] if fields else []
    return " and ".join([*advice, *(["number the labels of data as its outputs are"] if reordered else [])])


def check_design(seeds: Sequence[int], people: int) -> None:
    """Raise InputError for an audit whose seeds repeat, or of fewer than two people."""
    if not seeds or len(set(seeds)) < len(seeds) or people < 2:
        raise InputError(f"audit: expected different seeds and at least 2 people, got {list(seeds)} and {people}")


def check_membership(data: People, *, trained_on_data: bool, has_shadows: bool) -> None:
    """Raise InputError where membership is asked of data without a split, or shadow models without membership."""
    if trained_on_data and not has_split(data):
        raise InputError(
            "trained_on_data: expected data that say which images are for training and which for testing (folders "
            "train and test, a column split, or SplitImages), got no split"
        )
    if not trained_on_data and has_shadows:
        raise InputError("shadows: expected none without trained_on_data=True, got some")
