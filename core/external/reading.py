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
"""How far an answer may miss what a probability is; a sum of many may miss it by more."""
LEAST_DIGITS, MOST_DIGITS, SLACK = 2, 4, 1e-5
"""Decimals that probabilities may be rounded to; what float32 may add to their sum."""
UNDECIDED = -100.0
"""The logit of every class but the decided one, where a model names its decision alone: a probability of 0."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads what a model from outside answers, as it was said to answer.

    Attributes:
        answers: What the model was said to give.
        num_classes: C, None where the answers show it.
        where: How an error begins. All of it raises InputError, one line, for answers that are not what was said of
            them.
    """

    answers: Answers
    num_classes: int | None
    where: str

    def shaped(self, answer: object, images: int) -> Tensor:
        """The answer to so many images as a tensor, numbers [N, C] or labels [N]; it may come as a numpy array."""
        answers = torch.from_numpy(answer) if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf" else answer
        if not isinstance(answers, Tensor):
            wanted = f"{self.answers} as one tensor or an array of numbers"
            raise InputError(f"{self.where}: expected {wanted}, got {type(answer).__name__}")
        wide, classes = (
            self.answers != "labels",
            self.num_classes or max(2, answers.shape[1] if answers.ndim == 2 else 0),
        )
        if tuple(answers.shape) != ((images, classes) if wide else (images,)):
            shape = f"[{images}, {self.num_classes or 'C'}]" if wide else f"[{images}]"
            raise InputError(f"{self.where}: expected {self.answers} of shape {shape}, got {list(answers.shape)}")
        return answers

    def logits(self, answers: Tensor) -> Tensor:
        """What `shaped` gives as logits float32 [N, C]."""
        if self.answers == "labels":
            return self._decided(answers)
        answers = answers.float()
        if not bool(torch.isfinite(answers).all()):
            raise InputError(f"{self.where}: expected finite {self.answers}, got NaN or infinity")
        if self.answers == "probabilities" and not is_distribution(answers):
            worst = answers[((answers.sum(1) - 1).abs() + (answers.clamp(0, 1) - answers).abs().sum(1)).argmax()]
            got = ", ".join(f"{number:g}" for number in worst[:8].tolist())
            raise InputError(
                f"{self.where}: expected probabilities, each from 0 to 1 and together 1, got {got}; of other "
                "numbers say that the answers are logits"
            )
        return as_logits(answers, self.answers)

    def _decided(self, answers: Tensor) -> Tensor:
        labels, classes = answers.long(), present(self.num_classes, "num_classes")
        inside = (labels >= 0) & (labels < classes)
        if not torch.equal(labels.to(answers.dtype), answers) or not bool(inside.all()):
            got = f"{answers.min().item():g} to {answers.max().item():g}"
            wanted = f"labels, whole numbers from 0 to {classes - 1}"
            raise InputError(f"{self.where}: expected {wanted}, got {got}")
        logits = torch.full((len(labels), classes), UNDECIDED, device=answers.device)
        return logits.scatter(1, labels[:, None], 0.0)


def as_logits(found: Tensor, answers: Answers) -> Tensor:
    """Logits or probabilities [N, C] as logits, unlooked at."""
    return found.clamp_min(LEAST_PROBABILITY).log() if answers == "probabilities" else found


def is_distribution(answers: Tensor) -> bool:
    """Whether every row [N, C] can be one, also rounded as services answer; False for no rows.

    Numbers that all have the same few digits may each be off by half of the last one: of many classes most then read 0,
    and the rest adds up to less than one.
    """
    if not len(answers):
        return False
    inside = (answers >= -ROUNDED).all() and (answers <= 1 + ROUNDED).all()
    missed, usual = answers.sum(1) - 1, ROUNDED * answers.shape[1] ** 0.5
    half = _half_of_last_digit(answers)
    above, below = half * (answers > 0).sum(1), half * answers.shape[1]  # what was rounded up is above 0
    return bool(
        inside and ((missed <= (above + SLACK).clamp_min(usual)) & (missed >= -max(usual, below + SLACK))).all()
    )


def _half_of_last_digit(answers: Tensor) -> float:
    """Half a unit of the last decimal that numbers were rounded to; 0 where they have more than `MOST_DIGITS`."""
    for digits in range(LEAST_DIGITS, MOST_DIGITS + 1):
        scaled = answers.double() * 10**digits
        if bool(((scaled - scaled.round()).abs() < 1e-6 * 10**digits).all()):
            return 0.5 * 10**-digits
    return 0.0
