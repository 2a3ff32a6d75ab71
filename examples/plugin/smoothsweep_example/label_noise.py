"""Training under wrong labels as a defense: a share of each batch gets the label of another image of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from smoothsweep.core.bounds import OpenFraction
from smoothsweep.core.defenses.base import Defense, Labels


@dataclass(frozen=True, kw_only=True)
class LabelNoise(Defense):
    """rate: the share of labels that are replaced, in (0, 1)."""

    rate: OpenFraction

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """Every image uses two draws."""
        wrong = torch.rand(len(images), generator=generator) < self.rate
        others = torch.randint(len(images), (len(images),), generator=generator)
        return images, torch.where(wrong.to(labels.device), labels[others.to(labels.device)], labels)
