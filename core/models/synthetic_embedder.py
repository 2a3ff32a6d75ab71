"""A small face embedder for synthetic identities."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.data.synthetic import TRAIT_NAMES

WORKING_SIZE = 64
FEATURES = len(TRAIT_NAMES)


class SyntheticEmbedder(nn.Module):
    """A residual net of 0.38 million parameters at 64 x 64 pixels whose features tell identities apart.

    forward: images float [N, 3, S, S] in [-1, 1], any S -> float32 [N, FEATURES] of unit length. The features are what
    the net believes the traits of the person to be, turned and scaled so that the differences between people stand out
    from those between pictures of one person: compare by cosine, or fit a linear classifier.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            Residual(16),
            *_halve(16, 32),
            Residual(32),
            *_halve(32, 64),
            Residual(64),
            *_halve(64, 96),
            nn.Flatten(),
            nn.Linear(96 * 4 * 4, 128, bias=False),
            nn.BatchNorm1d(128),
            nn.ReLU(),
        )
        self.features = nn.Linear(128, FEATURES)

    def raw(self, images: Tensor) -> Tensor:
        """Features before they are scaled to unit length: float32 [N, FEATURES]."""
        return self.features(self.trunk(resize_to(images, WORKING_SIZE)))

    def forward(self, images: Tensor) -> Tensor:
        return functional.normalize(self.raw(images), dim=1)


class Residual(nn.Module):
    """Two 3 x 3 convolutions around an identity shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(inner)))


def resize_to(images: Tensor, height: int, width: int | None = None) -> Tensor:
    """Bilinear, antialiased when it shrinks: float [N, 3, S, S] -> float32 [N, 3, height, width]."""
    size = (height, width or height)
    images = images.to(torch.float32)
    if tuple(images.shape[-2:]) == size:
        return images
    return functional.interpolate(images, size=size, mode="bilinear", align_corners=False, antialias=True)


def _halve(channels: int, out: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
