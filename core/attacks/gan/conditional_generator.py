"""PLG-MI's generator: residual blocks under conditional batch norm (LetheSec/PLG-MI-Attack, models/generators)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig


class ConditionalNorm(nn.BatchNorm2d):
    """Batch norm without weights of its own, then a scale (1 at first) and a shift (0) of the image's class."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, affine=False)
        self.scale, self.shift = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:  # ty: ignore[incompatible-method-override]  # needs labels
        """x [N, channels, H, W], labels int64 [N]."""
        return self.scale(labels)[:, :, None, None] * super().forward(x) + self.shift(labels)[:, :, None, None]


class UpBlock(nn.Module):
    """Twice the side: norm, ReLU, doubling, 3x3, norm, ReLU, 3x3; beside it doubling and 1x1."""

    def __init__(self, before: int, after: int, classes: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = ConditionalNorm(before, classes), ConditionalNorm(after, classes)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, before, S, S] -> [N, after, 2 S, 2 S]."""
        inner = self.conv1(doubled(F.relu(self.norm1(x, labels))))
        inner = self.conv2(F.relu(self.norm2(inner, labels)))
        return inner + self.shortcut(doubled(x))


class ConditionalGenerator(nn.Module):
    """z [N, z_dim] and labels [N] -> images. Weights begin as torch's layers do (the official initialiser never runs).

    As a decoder it takes one vector w [N, 1, z_dim + 1]: z, and the class as a whole number in the last place.
    """

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.config, channels = config, config.channels
        self.linear = nn.Linear(config.z_dim, 16 * channels[0])
        self.blocks = nn.ModuleList(UpBlock(before, after, config.classes) for before, after in pairwise(channels))
        self.norm = nn.BatchNorm2d(channels[-1])
        self.rgb = nn.Conv2d(channels[-1], 3, 1)

    @property
    def resolution(self) -> int:
        """Side of its images in pixels."""
        return self.config.resolution

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """[N, 3, R, R] as tanh gives it: images in [-1, 1] where config.output is "signed", in [0, 1] where "unit"."""
        x = self.linear(z).unflatten(1, (-1, 4, 4))
        for block in self.blocks:
            x = block(x, labels)
        return torch.tanh(self.rgb(F.relu(self.norm(x))))

    def synthesize(self, w: Tensor) -> Tensor:
        """w [N, 1, z_dim + 1] -> images [N, 3, R, R], nominally in [-1, 1] whatever tanh stands for."""
        images = self(w[:, 0, :-1], w[:, 0, -1].detach().round().long())
        return images if self.config.output == "signed" else 2 * images - 1


def with_class(z: Tensor, target_class: int) -> Tensor:
    """z [N, z_dim] -> w [N, 1, z_dim + 1], what `ConditionalGenerator.synthesize` takes."""
    return torch.cat([z, torch.full_like(z[:, :1], target_class)], dim=1)[:, None]


def doubled(x: Tensor) -> Tensor:
    """Twice the side, bilinear, corners not aligned; as two matrix products, whose gradient is the same every time."""
    matrix = _doubling(x.shape[-1]).to(x)
    return matrix @ x @ matrix.T


def _doubling(side: int) -> Tensor:
    """[2 side, side]: each row holds the weights of one pixel's two neighbours; the border repeats."""
    place = ((torch.arange(2 * side) + 0.5) / 2 - 0.5).clamp(0, side - 1)
    return (1 - (place[:, None] - torch.arange(side)).abs()).clamp_min(0)
