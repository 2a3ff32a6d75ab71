"""A reward for uncertain outputs (Pereyra et al., 2017, "Regularizing neural networks by penalizing confident output
distributions")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothsweep.core.bounds import Positive
from smoothsweep.core.defenses.base import Defense, Step, StepLoss, over_outputs
from smoothsweep.core.defenses.strengths import Family, numbers


@dataclass(frozen=True, kw_only=True)
class ConfidencePenalty(Defense):
    """Criterion - beta * entropy of the softmax output (natural logarithm).

    beta: weight of the entropy, per nat.
    """

    cites: ClassVar[tuple[str, ...]] = ("pereyra2017regularizing",)
    family: ClassVar[Family | None] = Family(
        name="Confidence penalty", word="confidence penalty", parameter="beta", read=numbers("beta"), starts_plain=True
    )

    beta: Positive

    def loss(self, step: Step) -> StepLoss:
        """The mean over the batch; fact: entropy, its mean over the batch."""

        def losses_of(logits: Tensor) -> Tensor:
            return step.criterion(logits, step.labels) - self.beta * entropy(logits)

        losses, logits = over_outputs(step.forward(step.images), losses_of)
        return StepLoss(losses.mean(), logits, {"entropy": entropy(logits.detach()).mean()})


def entropy(logits: Tensor) -> Tensor:
    """Logits [n, C] -> entropies [n] in [0, log C]."""
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)
