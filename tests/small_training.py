"""A small classifier, coloured images and a recipe of seconds: what the tests of training share."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense, StepLoss, over_outputs
from smoothsweep.core.models.recipe import TrainingRecipe

MILD = Augmentation(hue=0.0, brightness=0.1, contrast=0.1, saturation=0.0)


@dataclass(frozen=True, kw_only=True)
class Scripted(Defense):
    """A loss of the tests: (step, logits) -> scalar."""

    make: Callable

    def loss(self, step):
        _, logits = over_outputs(step.forward(step.images), lambda z: z.sum(dim=1))
        return StepLoss(self.make(step, logits), logits, {})


def colours(per_class=24, size=32, seed=0):
    """Three classes of noisy plain colours."""
    generator = torch.Generator().manual_seed(seed)
    palette = torch.tensor([[200, 60, 60], [60, 200, 60], [60, 60, 200]])
    labels = torch.arange(3).repeat_interleave(per_class)
    noise = torch.randint(-50, 50, (3 * per_class, 3, size, size), generator=generator)
    images = (palette[labels][:, :, None, None] + noise).to(torch.uint8)
    return ImageSet(images=images, labels=labels, names=("red", "green", "blue"))


def recipe(**changes):
    return TrainingRecipe(**{"epochs": 3, "batch_size": 16, "image_size": 32, "augmentation": MILD, **changes})


class Plain(nn.Module):
    """A classifier without BatchNorm; with dropout if asked."""

    num_classes = 3

    def __init__(self, dropout=0.0):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(dropout)
        )
        self.head = nn.Linear(16, 3)

    def forward(self, images):
        return self.head(self.body(images))


def plain(dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Plain(dropout)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)
