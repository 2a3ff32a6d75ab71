"""A model that answers and shows no layers: whatever it is, images in and logits out, as far as its access goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from core.attacks.access import Access
from core.errors import InputError
from core.models.normalisation import Normalisation, input_layer
from core.outside.kinds import Answers

LEAST_PROBABILITY = 1e-30
"""What a probability counts as at least: its logarithm must be a number."""
UNDECIDED = -100.0
"""The logit of every class but the decided one, where a model names its decision alone: a probability of 0."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """answer: float32 [n, 3, S, S] on the device, as the model wants its images -> [n, C], or int64 [n] decided
    classes; rows: the number of images that it takes at once, None for any; side: S where the file says it;
    differentiable: whether a gradient may come back through it; own_input: whether it is shown pictures in [0, 1]
    whatever was said of a normalisation."""

    answer: Callable[[Tensor], Tensor]
    rows: int | None = None
    side: int | None = None
    differentiable: bool = True
    own_input: bool = False


class OutsideModel:
    """images float [N, 3, S, S] in [-1, 1] -> logits float32 [N, C] in the data's order, on the images' device.

    Of a model that gives probabilities the logits are their logarithms: the softmax brings them back, and each image's
    logits are the true ones up to a constant. Of one that names a class they are 0 there and `UNDECIDED` elsewhere.
    Gradients come back only where `access` is gradients: below that every answer is cut off.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        answers: Answers,
        access: Access,
        num_classes: int,
        normalisation: Normalisation,
        order: Tensor | None = None,
        where: str,
    ) -> None:
        """order: int64 [C], the model's output for each class of the data, None for its own; where: how an error
        begins."""
        self.opened, self.answers, self.access = opened, answers, access
        self.num_classes = num_classes
        self._where, self._order = where, torch.arange(num_classes) if order is None else order
        self.wants(normalisation)

    def wants(self, normalisation: Normalisation) -> None:
        """From now on the model is shown images in [-1, 1] as this normalisation has them."""
        self._normalise = input_layer(Normalisation.of_range(0, 1) if self.opened.own_input else normalisation)

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError, one line, for answers that are not what was said of them."""
        with self._gradients():
            return self._logits(self._raw(images))[:, self._order.to(images.device)]

    def _raw(self, images: Tensor) -> Tensor:
        shown = self._normalise.to(images.device)(images.float()).contiguous()
        rows = self.opened.rows
        return torch.cat([self._answer(chunk, rows) for chunk in shown.split(rows or max(1, len(shown)))])

    def _gradients(self) -> AbstractContextManager[None]:
        return nullcontext() if self.access == "gradients" else torch.no_grad()

    def _answer(self, chunk: Tensor, rows: int | None) -> Tensor:
        """The answers to these images; where the model takes a fixed number at once, the last one fills it up."""
        count = len(chunk)
        if rows is not None and count < rows:
            chunk = torch.cat([chunk, chunk[-1:].expand(rows - count, -1, -1, -1)])
        found = self.opened.answer(chunk)
        self._check_shape(found, len(chunk))
        return found[:count].to(chunk.device)

    def _check_shape(self, found: object, count: int) -> None:
        wanted = (count,) if self.answers == "labels" else (count, self.num_classes)
        if not isinstance(found, Tensor):
            raise InputError(f"{self._where}: expected one tensor of {self.answers}, got {type(found).__name__}")
        if tuple(found.shape) != wanted:
            raise InputError(f"{self._where}: expected {self.answers} of shape {list(wanted)}, got {list(found.shape)}")

    def _logits(self, found: Tensor) -> Tensor:
        if self.answers == "labels":
            return self._decided(found)
        found = found.float()
        if not bool(torch.isfinite(found).all()):
            raise InputError(f"{self._where}: expected {self.answers} that are finite numbers, got others")
        return found.clamp_min(LEAST_PROBABILITY).log() if self.answers == "probabilities" else found

    @torch.no_grad()
    def check_answers(self, images: Tensor) -> None:
        """Raise InputError unless the answers to these images [N, 3, S, S] in [-1, 1] are of the kind that was said."""
        found = self._raw(images)
        if self.answers == "labels":
            return
        looks = sums_to_one(found.float())
        if looks != (self.answers == "probabilities"):
            said = "add up to one" if looks else "do not add up to one"
            other = "probabilities" if looks else "logits"
            raise InputError(f"{self._where}: expected {self.answers}, got numbers that {said}: say --answers {other}")

    def _decided(self, found: Tensor) -> Tensor:
        labels = found.long()
        inside = (labels >= 0) & (labels < self.num_classes)
        if not torch.equal(labels.to(found.dtype), found) or not bool(inside.all()):
            raise InputError(f"{self._where}: expected class numbers below {self.num_classes}, got others")
        logits = torch.full((len(labels), self.num_classes), UNDECIDED, device=found.device)
        return logits.scatter(1, labels[:, None], 0.0)


def sums_to_one(found: Tensor) -> bool:
    """Whether every row [N, C] is a distribution, as a softmax leaves it; False for no rows."""
    if not len(found):
        return False
    inside = (found >= -1e-6).all() and (found <= 1 + 1e-6).all()
    return bool(inside and ((found.sum(1) - 1).abs() < 1e-3).all())
