"""The generator and the two discriminators of GMI, KED-MI and LOMMA, under the module names of the official code.

Sources: generator.py and discri.py of AI-secure/GMI-Attack (Celeba/), SCccc21/Knowledge-Enriched-DMI and
sutd-visual-computing-group/Re-thinking_MI, which agree. Images here are in [0, 1], as theirs; weights begin as torch's
layers do.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.config import PlainGanConfig
from smoothsweep.core.priors.base import sample_latents, truncate

_SLOPE = 0.2
_STATISTIC_DIM = 50  # numbers that minibatch discrimination compares for each of its outputs


class PlainGenerator(nn.Module):
    """z [N, z_dim] -> images in (0, 1): a linear layer, then a transposed convolution for each doubling.

    A `core.priors.base.Prior` too, for attacks that search in it: its w is z itself. resolution: side of its images in
    pixels.
    """

    num_ws = 1

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config, channels = config, tuple(reversed(config.channels))
        self.resolution, self.z_dim, self.w_dim = config.resolution, config.z_dim, config.z_dim
        self.l1 = nn.Sequential(
            nn.Linear(config.z_dim, 16 * channels[0], bias=False), nn.BatchNorm1d(16 * channels[0]), nn.ReLU()
        )
        doublings = [
            nn.Sequential(_doubling(before, after, bias=False), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in pairwise(channels)
        ]
        self.l2_5 = nn.Sequential(*doublings, _doubling(channels[-1], 3, bias=True), nn.Sigmoid())

    def sample_z(self, n: int, seed: int) -> np.ndarray:
        """float64 [n, z_dim], standard normal."""
        return sample_latents(n, self.z_dim, seed)

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [N, z_dim] -> the same as float32 [N, 1, z_dim], pulled towards 0 by psi."""
        return truncate(z.float()[:, None], 0.0, psi=psi, cutoff=cutoff)

    def forward(self, z: Tensor) -> Tensor:
        """[N, 3, R, R] in (0, 1)."""
        return self.l2_5(self.l1(z).unflatten(1, (-1, 4, 4)))

    def synthesize(self, w: Tensor) -> Tensor:
        """w [N, 1, z_dim] -> images [N, 3, R, R] in (-1, 1)."""
        return 2 * self(w[:, 0]) - 1


class Critic(nn.Module):
    """GMI's: images [N, 3, R, R] in [0, 1] -> [N], large for what looks real. It has no batch statistics."""

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config, channels = config, config.channels
        first = [nn.Conv2d(3, channels[0], 5, 2, 2), nn.LeakyReLU(_SLOPE)]
        blocks = [_halving(before, after) for before, after in pairwise(channels)]
        self.ls = nn.Sequential(*first, *blocks, nn.Conv2d(channels[-1], 1, 4))

    def forward(self, images: Tensor) -> Tensor:
        return self.ls(images).flatten()


class MinibatchDiscriminator(nn.Module):
    """KED-MI's: images [N, 3, R, R] in [0, 1] -> features [N, F] and logits [N, classes].

    There is no unit for fakes: theirs is a fixed logit of 0. The images of a batch are compared with each other, also
    in evaluation; with `groups` those of a group alone.
    """

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config = config
        channels = (3, *config.channels[:-1], config.channels[-2])
        self.steps = len(channels) - 1
        for number, (before, after) in enumerate(pairwise(channels), start=1):
            last = number == self.steps
            setattr(self, f"layer{number}", _halving(before, after, kernel=3 if last else 5))
        features = 16 * channels[-1]
        self.mbd1 = MinibatchStatistics(features, config.width)
        self.fc_layer = nn.Linear(features + config.width, config.classes)

    def forward(self, images: Tensor, groups: int | None = None) -> tuple[Tensor, Tensor]:
        """groups: images of each group, in their order; None for the whole batch as one."""
        x = images
        for number in range(1, self.steps + 1):
            x = getattr(self, f"layer{number}")(x)
        features = x.flatten(1)
        if groups == 1:  # nothing to compare an image with: 0, and no gradient
            likeness = features.new_zeros(features.shape[0], self.config.width)
        else:
            parts = features.split(groups) if groups else (features,)
            likeness = torch.cat([self.mbd1(part) for part in parts])
        return features, self.fc_layer(torch.cat([features, likeness], 1))


class MinibatchStatistics(nn.Module):
    """How close every image is to the others of its batch, [N, F] -> [N, outputs]: a sum over them, not a mean."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.T = nn.Parameter(torch.randn(features, outputs, _STATISTIC_DIM))

    def forward(self, features: Tensor) -> Tensor:
        compared = (features @ self.T.flatten(1)).unflatten(1, self.T.shape[1:])
        # Row by row: all pairs at once would be N * N * outputs * 50 numbers.
        return torch.stack([(-(compared - row).abs().sum(2)).exp().sum(0) - 1 for row in compared])


def _doubling(before: int, after: int, *, bias: bool) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(before, after, 5, 2, padding=2, output_padding=1, bias=bias)


def _halving(before: int, after: int, *, kernel: int = 5) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, 2, kernel // 2), nn.InstanceNorm2d(after, affine=True), nn.LeakyReLU(_SLOPE)
    )
