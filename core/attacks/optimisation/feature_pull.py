"""LOMMA's pull of the target's features to what they usually are, beside a loss on its logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

FeaturesAndLogits = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class FeaturePull:
    """The term of a loss that pulls a target's penultimate features to their mean over images of the attacker's.

    sutd-visual-computing-group/Re-thinking_MI (attack.py) draws a feature from the estimated distribution, and then
    overwrites it by the mean; so the mean alone is used.

    Attributes:
        features: Images [N, 3, S, S] -> penultimate features [N, D] and logits [N, C], differentiable.
        mean: [D], of the features over images of the attacker's, on their device.
    """

    features: Callable[[Tensor], FeaturesAndLogits]
    mean: Tensor

    def add_to_loss(
        self, loss: Callable[[Tensor, Tensor], Tensor], weight: float
    ) -> Callable[[FeaturesAndLogits, Tensor], Tensor]:
        """(features and logits, targets) -> [N]: the loss, and `weight` times the pull."""

        def both(answer: FeaturesAndLogits, targets: Tensor) -> Tensor:
            features, logits = answer
            return loss(logits, targets) + weight * feature_pull(features, self.mean)

        return both


def feature_pull(features: Tensor, mean: Tensor) -> Tensor:
    """Mean squared distance to `mean` over the dimensions, [N] of features [N, D]."""
    return (features - mean).square().mean(1)
