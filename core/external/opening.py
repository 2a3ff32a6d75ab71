"""A model of any kind, opened, and what it is found to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.external.model import ExternalModel, OpenedModel
from smoothsweep.core.external.sides import check_side
from smoothsweep.core.models.normalisation import Normalisation


@dataclass(frozen=True, kw_only=True)
class ModelAbilities:
    """What trying a model from outside found.

    Attributes:
        access: The most that the model gives.
        rows: How many images it takes at once, None for any.
    """

    access: Access
    rows: int | None


def open_external(kind: str, source: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """The model that `source` holds. settings: what its card says. Raises InputError, one line."""
    return KINDS[kind].open(source, settings, device)


def try_external(
    opened: OpenedModel,
    *,
    answers: Answers,
    num_classes: int,
    image_size: int,
    normalisation: Normalisation,
    where: str,
) -> ModelAbilities:
    """What the model gives, found out by asking: three images, one where it takes no three, and a backward pass.

    Raises InputError, one line, for another size of images or number of classes, and for what answers nothing.
    """
    if opened.side is not None and opened.side != image_size:
        raise InputError(f"--image-size: expected {opened.side}, which {where} takes, got {image_size}")
    images = torch.rand(3, 3, image_size, image_size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    rows = opened.rows

    def ask(many: int | None, access: Access) -> ExternalModel:
        return ExternalModel(
            replace(opened, rows=many),
            answers=answers,
            access=access,
            num_classes=num_classes,
            normalisation=normalisation,
            where=where,
        )

    try:
        ask(rows, "scores")(images)
    except InputError:
        check_side(ask(rows or 1, "scores"), images)
        if rows is not None:
            raise
        rows = 1
    if answers == "labels":
        return ModelAbilities(access="labels", rows=rows)
    gives = opened.differentiable and has_gradient(ask(rows, "gradients"), images)
    return ModelAbilities(access="gradients" if gives else "scores", rows=rows)


def has_gradient(model: ExternalModel, images: torch.Tensor) -> bool:
    """Whether a gradient reaches the images: finite, and not zero everywhere, as it is behind rounded answers."""
    pictures = images.clone().requires_grad_(True)
    try:
        with torch.enable_grad():
            gradient = torch.autograd.grad(model(pictures).square().sum(), pictures, allow_unused=True)[0]
    except RuntimeError:  # torch's word for an answer that nothing leads back from
        return False
    return gradient is not None and bool(torch.isfinite(gradient).all()) and bool(gradient.any())
