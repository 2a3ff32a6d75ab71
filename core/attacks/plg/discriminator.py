"""PLG-MI's discriminator: residual blocks under spectral norm, the class by projection.

LetheSec/PLG-MI-Attack, models/discriminators/snresnet64.py. It is torch's older spectral norm: one power iteration per
pass in train mode, v before u. The newer parametrisation takes u before v, which gives other numbers on the way.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import spectral_norm

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig


class DownBlock(nn.Module):
    """Half the side: ReLU, 3x3, ReLU, 3x3, pooling; beside it 1x1 and pooling. The first block, which gets an image,

    has no ReLU before it and pools its shortcut first.
    """

    def __init__(self, before: int, after: int, *, first: bool = False) -> None:
        super().__init__()
        inside = after if first else before
        self.first = first
        self.conv1 = _normed(nn.Conv2d(before, inside, 3, padding=1), gain=math.sqrt(2))
        self.conv2 = _normed(nn.Conv2d(inside, after, 3, padding=1), gain=math.sqrt(2))
        self.shortcut = _normed(nn.Conv2d(before, after, 1), gain=1)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, before, S, S] -> [N, after, S / 2, S / 2]."""
        inner = self.conv1(x if self.first else F.relu(x))
        inner = F.avg_pool2d(self.conv2(F.relu(inner)), 2)
        skip = self.shortcut(F.avg_pool2d(x, 2)) if self.first else F.avg_pool2d(self.shortcut(x), 2)
        return inner + skip


class ProjectionDiscriminator(nn.Module):
    """Images [N, 3, R, R] in the generator's range, and labels [N] -> [N, 1], large for what looks real."""

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.config = config
        channels = (3, *reversed(config.channels))
        self.blocks = nn.ModuleList(
            DownBlock(before, after, first=place == 0) for place, (before, after) in enumerate(pairwise(channels))
        )
        self.linear = _normed(nn.Linear(channels[-1], 1), gain=1)
        self.embed = _normed(nn.Embedding(config.classes, channels[-1]), gain=1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Logits [N, 1]. In train mode every call moves the vectors of the spectral norm by one power iteration."""
        x = images
        for block in self.blocks:
            x = block(x)
        features = F.relu(x).sum(dim=(2, 3))
        return self.linear(features) + (self.embed(labels) * features).sum(1, keepdim=True)


def _normed(layer: nn.Conv2d | nn.Linear | nn.Embedding, *, gain: float) -> nn.Module:
    nn.init.xavier_uniform_(layer.weight, gain)
    return spectral_norm(layer)
