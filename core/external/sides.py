"""Whether a model takes images of the side that was stated, and which one it does take where it does not."""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.models.other_readings import USUAL_SIZES, is_near


def check_side(model: ExternalModel, images: Tensor, *, said_by: str = "--image-size ") -> Tensor:
    """The logits of images [N, 3, S, S] in [-1, 1]. Raises InputError, one line, where the model does not take them.

    The line ends with the nearest usual side that the model does take, if any. That is not tried on a model that is
    sent pictures, since what it may be asked is counted. said_by: how the side is said, before its number.
    """
    try:
        return model(images)
    except InputError as refused:
        stated, counted = images.shape[-1], model.opened.own_input
        near = sorted((side for side in USUAL_SIZES if is_near(side, stated)), key=lambda side: abs(side - stated))
        for side in () if counted or model.opened.side is not None else near:
            try:
                model(torch.zeros(1, 3, side, side))
            except InputError:
                continue
            raise InputError(f"{refused}; it takes images of {side} pixels: use {said_by}{side}") from None
        raise
