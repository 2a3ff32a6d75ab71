"""Logits of bounded length (Wei et al., ICML 2023, "Mitigating memorization of noisy labels by clipping the logits").

There the clipping belongs to the loss; here it belongs to the network, so that an attacker reads clipped logits too.
The predicted class is the same. It bounds what smoothing with a negative factor can drive apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import Positive
from smoothsweep.core.defenses.base import Defense, SameHead
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.classifiers import Classifier


@dataclass(frozen=True, kw_only=True)
class LogitClipping(Defense):
    """Shorten every logit vector longer than `norm` to that length.

    norm: largest Euclidean length of a logit vector.
    """

    cites: ClassVar[tuple[str, ...]] = ("wei2023mitigating",)
    family: ClassVar[Family | None] = Family(
        name="Logit clipping",
        word="logit clipping",
        parameter="norm",
        read=numbers("norm", grows=lambda norm: 1 / norm if norm else float("inf")),
        starts_plain=True,
    )

    norm: Positive

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Same weights under the same names; the head clips what it computes."""
        self.check(model.architecture)
        model.head = ClippedHead(model.head, self.norm)


class ClippedHead(SameHead):
    """Another head's weights, its output clipped."""

    def __init__(self, head: nn.Linear, norm: float) -> None:
        super().__init__(head)
        self.norm = norm

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C] of length at most `norm`."""
        logits = super().forward(input)
        length = logits.norm(dim=1, keepdim=True)
        return logits * (self.norm / length.clamp(min=self.norm))
