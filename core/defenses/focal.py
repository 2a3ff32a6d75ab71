"""Focal loss: images that are already right count less (Lin et al., ICCV 2017).

Under label smoothing every class's term of the target is weighted by its own (1 - p)^gamma. That is defined for
negative factors too: the terms of the other classes keep a weight near 1, so the loss stays unbounded below and drives
the logits apart, as smoothing alone does. The other reading, one weight (1 - p_true)^gamma on the whole smoothed loss,
would reward a smaller p_true as soon as that loss is negative, and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothsweep.core.bounds import Positive
from smoothsweep.core.defenses.base import Defense, Step, StepLoss, hard_labels, over_outputs
from smoothsweep.core.defenses.strengths import Family, numbers

_LEAST = 1e-12  # of 1 - p, so that a gamma below 1 has a finite slope where p reaches 1


@dataclass(frozen=True, kw_only=True)
class Focal(Defense):
    """Minimise -sum_k t_k (1 - p_k)^gamma log p_k over the smoothed target t.

    gamma: focusing exponent; the larger, the less images count that the network is sure of.
    """

    cites: ClassVar[tuple[str, ...]] = ("lin2017focal",)
    family: ClassVar[Family | None] = Family(
        name="Focal loss", word="focal", parameter="", read=numbers("gamma", named=True), starts_plain=True
    )

    gamma: Positive

    def loss(self, step: Step) -> StepLoss:
        """The mean over the batch."""
        labels = hard_labels(step.labels)

        def losses_of(logits: Tensor) -> Tensor:
            return focal_losses(logits, step.criterion.targets(labels, logits.shape[1]), self.gamma)

        losses, logits = over_outputs(step.forward(step.images), losses_of)
        return StepLoss(losses.mean(), logits, {})


def focal_losses(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """Logits and targets [n, C] -> losses [n]."""
    log_p = torch.log_softmax(logits.float(), dim=1)
    rest = (-torch.expm1(log_p)).clamp(min=_LEAST)
    return -(targets * rest.pow(gamma) * log_p).sum(dim=1)
