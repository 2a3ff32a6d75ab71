"""Mixup: the network trains on blends of two images and their labels (Zhang et al., ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from smoothsweep.core.bounds import Positive
from smoothsweep.core.defenses.base import Defense, Labels, MixedLabels
from smoothsweep.core.defenses.strengths import Family, numbers


@dataclass(frozen=True, kw_only=True)
class Mixup(Defense):
    """Every image is blended with another one of its batch; its share is drawn from Beta(alpha, alpha).

    alpha: both parameters of the Beta distribution; small values leave most images nearly whole.

    The share is drawn for every image (the official code
    draws one for a batch). Label smoothing applies to both labels: smoothed cross entropy is linear in the target. A
    data-parallel rank blends within its own part of a batch.
    """

    cites: ClassVar[tuple[str, ...]] = ("zhang2018mixup",)
    family: ClassVar[Family | None] = Family(
        name="Mixup", word="mixup", parameter="alpha", read=numbers("alpha"), starts_plain=True
    )

    alpha: Positive

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """share * image + (1 - share) * partner, with both labels and the share of the first."""
        partner = torch.randperm(len(images), generator=generator).to(images.device)
        share = draw_shares(len(images), self.alpha, generator).to(images.device)
        column = share[:, None, None, None]
        mixed = column * images + (1 - column) * images[partner]
        return mixed, MixedLabels(first=labels, second=labels[partner], share=share)


def draw_shares(n: int, alpha: float, generator: Generator) -> Tensor:
    """n draws of Beta(alpha, alpha), float32 [n]; torch's own Beta takes no generator."""
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, size=n)).float()
