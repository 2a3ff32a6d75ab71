"""A head of low rank behind a tanh, LoFt (arXiv 2410.05814): few bounded numbers are all that the logits are made of.

Layers as in ffhibnese/Model-Inversion-Attack-ToolBox (`src/modelinversion/models/classifiers/wrappers.py`), which the
published trainings use: BatchNorm1d(F), Linear(F, rank), tanh, Linear(rank, C). Their FaceScrub scripts take rank 50.
The paper's text has no norm in front; `norm: false` leaves it out. The confidence adaptation that an earlier version
of the paper trained afterwards is not part of it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, nn

from smoothsweep.core.bounds import Width
from smoothsweep.core.defenses.base import Defense, new_linear
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.classifiers import Classifier


@dataclass(frozen=True, kw_only=True)
class Loft(Defense):
    """The features under the head become `rank` numbers in (-1, 1), and the head is one of these.

    Attributes:
        rank: Numbers that the features become (the published FaceScrub trainings: 50).
        norm: Whether the network's own features pass a BatchNorm first.
    """

    cites: ClassVar[tuple[str, ...]] = ("yu2024calor",)
    family: ClassVar[Family | None] = Family(
        name="LoFt",
        word="LoFt",
        parameter="",
        starts_plain=False,
        defaults={"norm": True},
        read=numbers("rank", named=True, grows=lambda rank: 1 / rank if rank else float("inf")),
        why="however wide, the tanh remains",
    )

    rank: Width
    norm: bool = True

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """The narrow layers become the classifier's neck, so that its features are the bounded numbers."""
        self.check(model.architecture)
        features, classes = model.feature_dim, model.num_classes
        layers: dict[str, nn.Module] = {"norm": nn.BatchNorm1d(features)} if self.norm else {}
        layers |= {"narrow": new_linear(features, self.rank, generator), "bound": nn.Tanh()}
        model.neck = nn.Sequential(OrderedDict(layers))
        model.head = new_linear(self.rank, classes, generator)
