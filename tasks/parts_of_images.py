"""Which images a training learns from: those of its data, or the part of all images that a shadow model gets."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.membership.base import inside_part
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.files import load_images

PART = "part"
"""Key of a shadow model's configuration: its number, share and seed (`core.membership.base.inside_part`)."""


def training_images(config: Config, data: Path) -> tuple[ImageSet, ImageSet]:
    """Images to train on, and images to test on, of a training's configuration and its `data` artifact."""
    if PART not in config:
        return load_images(data, "train"), load_images(data, "test")
    everything = all_images(data)
    inside = torch.from_numpy(inside_part(everything.labels.numpy(), **config[PART]))
    return everything.subset(inside), everything.subset(~inside)


def all_images(data: Path) -> ImageSet:
    """Training images and, behind them, test images."""
    train, test = load_images(data, "train"), load_images(data, "test")
    return ImageSet(
        images=torch.cat([train.images, test.images]),
        labels=torch.cat([train.labels, test.labels]),
        names=train.names,
    )
