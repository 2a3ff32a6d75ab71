"""A model's answers, whichever kind they are, looked at and turned into logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers

LEAST_PROBABILITY = 1e-30
"""What a probability counts as at least: its logarithm must be a number."""
ROUNDED = 0.01
"""By how much an answer may miss what a probability is; a sum of many may miss it by more."""
UNDECIDED = -100.0
"""The logit of every class but the decided one, where a model names its decision alone: a probability of 0."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """answers: what the model was said to give; num_classes: C, None where the answers show it; where: how an error
    begins. All of it raises InputError, one line, for answers that are not what was said of them."""

    answers: Answers
    num_classes: int | None
    where: str

    def shaped(self, answer: object, images: int) -> Tensor:
        """The answer to so many images as a tensor, numbers [N, C] or labels [N]; it may come as a numpy array."""
        found = torch.from_numpy(answer) if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf" else answer
        if not isinstance(found, Tensor):
            wanted = f"{self.answers} as one tensor or an array of numbers"
            raise InputError(f"{self.where}: expected {wanted}, got {type(answer).__name__}")
        wide, classes = self.answers != "labels", self.num_classes or max(2, found.shape[1] if found.ndim == 2 else 0)
        if tuple(found.shape) != ((images, classes) if wide else (images,)):
            shape = f"[{images}, {self.num_classes or 'C'}]" if wide else f"[{images}]"
            raise InputError(f"{self.where}: expected {self.answers} of shape {shape}, got {list(found.shape)}")
        return found

    def logits(self, found: Tensor) -> Tensor:
        """What `shaped` gives as logits float32 [N, C]."""
        if self.answers == "labels":
            return self._decided(found)
        found = found.float()
        if not bool(torch.isfinite(found).all()):
            raise InputError(f"{self.where}: expected finite {self.answers}, got NaN or infinity")
        if self.answers == "probabilities" and not is_distribution(found):
            worst = found[((found.sum(1) - 1).abs() + (found.clamp(0, 1) - found).abs().sum(1)).argmax()]
            got = ", ".join(f"{number:g}" for number in worst[:8].tolist())
            raise InputError(
                f"{self.where}: expected probabilities, each from 0 to 1 and together 1, got {got}; of other "
                "numbers say that the answers are logits"
            )
        return as_logits(found, self.answers)

    def _decided(self, found: Tensor) -> Tensor:
        labels, classes = found.long(), present(self.num_classes, "num_classes")
        inside = (labels >= 0) & (labels < classes)
        if not torch.equal(labels.to(found.dtype), found) or not bool(inside.all()):
            got = f"{found.min().item():g} to {found.max().item():g}"
            wanted = f"labels, whole numbers from 0 to {classes - 1}"
            raise InputError(f"{self.where}: expected {wanted}, got {got}")
        logits = torch.full((len(labels), classes), UNDECIDED, device=found.device)
        return logits.scatter(1, labels[:, None], 0.0)


def as_logits(found: Tensor, answers: Answers) -> Tensor:
    """Logits or probabilities [N, C] as logits, unlooked at."""
    return found.clamp_min(LEAST_PROBABILITY).log() if answers == "probabilities" else found


def is_distribution(found: Tensor) -> bool:
    """Whether every row [N, C] can be one, rounded to two digits or so as some services answer."""
    inside = (found >= -ROUNDED).all() and (found <= 1 + ROUNDED).all()
    return bool(inside and ((found.sum(1) - 1).abs() <= ROUNDED * found.shape[1] ** 0.5).all())


def sums_to_one(found: Tensor) -> bool:
    """Whether every row [N, C] is a distribution, as a softmax leaves it; False for no rows."""
    if not len(found):
        return False
    inside = (found >= -1e-6).all() and (found <= 1 + 1e-6).all()
    return bool(inside and ((found.sum(1) - 1).abs() < 1e-3).all())
