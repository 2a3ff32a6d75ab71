"""The point of a walk that a target keeps recognising: by labels alone, under random crops and mirrors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.latent_images import LatentImages
from smoothsweep.core.attacks.optimisation.crop_rule import CropRule
from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, apply_crops
from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.shared.view import LabelView
from smoothsweep.core.seeds import generator

VIEWS = CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)
"""The crops under which Plug & Play selects (LukasStruppek/Plug-and-Play-Attacks, attacks/final_selection.py)."""


def most_robust(
    points: Sequence[Tensor],
    images: LatentImages,
    view: LabelView,
    target_class: int,
    *,
    views: int,
    seed: int,
    protocol: Protocol,
) -> Tensor:
    """The one of a walk's latents [D], in their order, whose image keeps its label in most of `views` random views.

    Among equals it is the last, which lies deepest in the class. Each view of each point is a query. Under "paper" all
    points share a draw, under "clean" each has its own.
    """
    pictures = images(torch.stack(list(points)))
    votes = torch.zeros(len(points), dtype=torch.int64)
    for number in range(views):
        source = generator(seed, target_class, "robust", number)
        crops = DRAW_CROPS[protocol](VIEWS, len(points), view.image_size, view.image_size, source)
        votes += view.labels(apply_crops(pictures, crops, view.image_size)) == target_class
    best = int((votes == votes.max()).nonzero()[-1])
    return points[best]
