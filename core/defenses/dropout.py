"""Dropout on the features under the head (Srivastava et al., JMLR 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch.nn.functional as F
from annotated_types import Gt, Lt
from torch import Generator, Tensor, nn

from smoothsweep.core.defenses.base import Defense, SameHead
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.classifiers import Classifier


@dataclass(frozen=True, kw_only=True)
class Dropout(Defense):
    """Every feature is zeroed with probability `p` while training, the others are scaled by 1 / (1 - p).

    p: probability in (0, 1) that a feature is zeroed.
    """

    cites: ClassVar[tuple[str, ...]] = ("srivastava2014dropout",)
    family: ClassVar[Family | None] = Family(
        name="Dropout", word="dropout", parameter="p", read=numbers("p"), starts_plain=True
    )

    p: Annotated[float, Gt(0), Lt(1)]

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Same weights under the same names; the head drops features before it uses them."""
        self.check(model.architecture)
        model.head = DropoutHead(model.head, self.p)


class DropoutHead(SameHead):
    """Another head's weights behind dropout."""

    def __init__(self, head: nn.Linear, p: float) -> None:
        super().__init__(head)
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C]."""
        return super().forward(F.dropout(input, self.p, self.training))
