"""A model that answers and shows no layers: whatever it is, images in and logits out, as far as its access goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.reading import Reader, is_distribution
from smoothsweep.core.models.normalisation import Normalisation, input_layer


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model from outside that answers.

    Attributes:
        answer: float32 [n, 3, S, S] on the device, as the model wants its images -> [n, C], or int64 [n] decided
            classes.
        rows: The number of images that it takes at once, None for any.
        side: S where the file says it.
        differentiable: Whether a gradient may come back through it.
        own_input: Whether it is shown pictures in [0, 1] whatever was said of a normalisation.
        accepts: The logit from which on it accepts a picture as anybody, None for a model that always decides for a
            class.
        remark: A sentence for the user on what the model answers.
    """

    answer: Callable[[Tensor], Tensor]
    rows: int | None = None
    side: int | None = None
    differentiable: bool = True
    own_input: bool = False
    accepts: float | None = None
    remark: str = ""


class ExternalModel:
    """images float [N, 3, S, S] in [-1, 1] -> logits float32 [N, C] in the data's order, on the images' device.

    Of a model that gives probabilities the logits are their logarithms: the softmax brings them back, and each image's
    logits are the true ones up to a constant. Of one that names a class they are 0 there, elsewhere far below.
    Gradients come back only where `access` is gradients: below that every answer is cut off.
    """

    def __init__(
        self,
        opened: OpenedModel,
        *,
        answers: Answers,
        access: Access,
        num_classes: int | None,
        normalisation: Normalisation,
        order: Tensor | None = None,
        where: str,
    ) -> None:
        """Read an opened model as it was said to answer.

        Args:
            num_classes: None where the answers show it.
            order: int64 [C], the model's output for each class of the data, None for its own.
            where: How an error begins.
        """
        self.opened, self.answers, self.access = opened, answers, access
        self.num_classes, self._order = num_classes, order
        self._reader = Reader(answers=answers, num_classes=num_classes, where=where)
        self.wants(normalisation)

    def wants(self, normalisation: Normalisation) -> None:
        """Show the model images in [-1, 1] as this normalisation has them, from now on."""
        self._normalise = input_layer(Normalisation.of_range(0, 1) if self.opened.own_input else normalisation)

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError, one line, for answers that are not what was said of them."""
        with self._gradients():
            logits = self._reader.logits(self._raw(images))
        return logits if self._order is None else logits[:, self._order.to(images.device)]

    def _raw(self, images: Tensor) -> Tensor:
        pixels = self._normalise.to(images.device)(images.float()).contiguous()
        rows = self.opened.rows
        return torch.cat([self._answer(chunk, rows) for chunk in pixels.split(rows or max(1, len(pixels)))])

    def _gradients(self) -> AbstractContextManager[None]:
        return nullcontext() if self.access == "gradients" else torch.no_grad()

    def _answer(self, chunk: Tensor, rows: int | None) -> Tensor:
        """The answers to these images; where the model takes a fixed number at once, the last one fills it up."""
        count = len(chunk)
        if rows is not None and count < rows:
            chunk = torch.cat([chunk, chunk[-1:].expand(rows - count, -1, -1, -1)])
        return self._reader.shaped(self.opened.answer(chunk), len(chunk))[:count].to(chunk.device)

    @torch.no_grad()
    def check_answers(self, images: Tensor, *, said_by: str = "--answers") -> None:
        """Raise InputError unless the answers to these images [N, 3, S, S] in [-1, 1] are of the kind that was said.

        said_by: where the kind is said, for the sentence.
        """
        answer = self._raw(images)
        if self.answers == "labels":
            return
        looks = is_distribution(answer.float())
        if looks != (self.answers == "probabilities"):
            observed = "add up to one" if looks else "do not add up to one"
            other = "probabilities" if looks else "logits"
            raise InputError(
                f"{self._reader.where}: expected {self.answers}, got numbers that {observed}: say {said_by} {other}"
            )
