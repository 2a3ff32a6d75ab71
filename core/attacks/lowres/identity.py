"""How little the target, and what was distilled from it, see the wanted classes in images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.optimisation.losses import feature_pull
from smoothsweep.core.attacks.shared.view import GradientView

Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """GMI's and KED-MI's: the target's cross-entropy."""

    view: GradientView

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """[N] of images [N, 3, R, R] in [-1, 1]."""
        return F.cross_entropy(self.view.logits(images), labels, reduction="none")


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """LOMMA's (sutd-visual-computing-group/Re-thinking_MI, attack.py), each image by itself.

    The mean over target and students of a loss: minus the logit of the class, not normalised over the others, or
    cross-entropy. mean: of the target's features on public images, to which those of the images are pulled with
    `feature_weight`; None for no pull. The published code draws a feature from the estimated distribution, and then
    overwrites it by the mean. The pull is not divided by the number of models.
    """

    view: GradientView
    students: Sequence[Logits]
    raw_logit: bool
    mean: Tensor | None = None
    feature_weight: float = 1.0

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """As `CrossEntropy`."""
        features, logits = (None, self.view.logits(images)) if self.mean is None else self.view.features(images)
        models = [logits, *(student(images) for student in self.students)]
        loss = torch.stack([self._of(answer, labels) for answer in models]).mean(0)
        if features is None or self.mean is None:
            return loss
        return loss + self.feature_weight * feature_pull(features, self.mean)

    def _of(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.raw_logit:
            return -logits.gather(1, labels[:, None]).squeeze(1)
        return F.cross_entropy(logits, labels, reduction="none")
