"""MobileStyleGAN as a prior: z -> w -> image, a mapping network and a synthesis network of plain layers."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.priors.base import PriorNetwork, spread_over_places, truncate
from smoothsweep.core.priors.mobilestylegan_fused import SLOPE
from smoothsweep.core.priors.mobilestylegan_layers import Affine, First, Numbers, Stage, ToImage
from smoothsweep.core.priors.mobilestylegan_windows import Window, sampling, stage_windows, whole
from smoothsweep.core.priors.random_face_settings import MobileStyleGANConfig

GAIN = 2**0.5
EPSILON = 1e-8
AT_ONCE = 2**21
"""Numbers of the largest features that images computed together have on a CPU: they stay in its cache."""


class Mapping(Numbers):
    """z -> w: to unit mean square, then fully connected layers with a leaky ReLU. mean: of w over draws of z."""

    mean: Tensor

    def __init__(self, config: MobileStyleGANConfig) -> None:
        super().__init__()
        sizes = [config.z_dim, *[config.w_dim] * config.mapping_layers]
        self.layers = nn.ModuleList([Affine(*pair) for pair in pairwise(sizes)])
        self.keep(mean=(config.w_dim,))

    def forward(self, z: Tensor) -> Tensor:
        """z [n, z_dim] -> w float32 [n, w_dim]."""
        x = z.to(device=self.mean.device, dtype=torch.float32)
        x = x * (x.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        for layer in self.layers:
            x = functional.leaky_relu(layer(x), SLOPE) * GAIN
        return x


class MobileStyleGAN(PriorNetwork):
    """The generator, of as many stages as its configuration names channels for, and the frame of what it shows."""

    mapping_slope: ClassVar[float | None] = SLOPE

    def __init__(self, config: MobileStyleGANConfig) -> None:
        super().__init__(config)
        channels, last = config.channels, len(config.channels) - 2
        self.mapping = Mapping(config)
        self.first = First(channels[0], config.w_dim)
        self.stages = nn.ModuleList()
        for index, (inputs, between) in enumerate(pairwise(channels)):
            outputs = config.head if index == last and config.head is not None else between
            self.stages.append(Stage(inputs, between, outputs, side=8 * 2**index, w_dim=config.w_dim))
        self.to_image = ToImage(config.head or channels[-1], config.w_dim)
        self._windows, self._sampled = self._planned(config)
        widths = [*channels[1:-1], max(channels[-1], config.head or 0)]
        numbers = max(
            (window.bottom - window.top) * (window.right - window.left) * width
            for (window, _), width in zip(self._windows, widths, strict=True)
        )
        self._at_once = max(1, AT_ONCE // numbers)

    def _planned(self, config: MobileStyleGANConfig) -> tuple[list[tuple[Window, Window]], bool]:
        """Which parts of the features count; rows and columns of the frame become buffers that no file holds."""
        window, sampled = whole(config.whole), config.frame is not None or config.resolution != config.whole
        if sampled:
            left, top, side = (number * config.whole for number in config.frame or (0.0, 0.0, 1.0))
            rows, first, last = sampling(config.whole, top, side, config.resolution)
            columns, start, end = sampling(config.whole, left, side, config.resolution)
            self.register_buffer("rows", rows, persistent=False)
            self.register_buffer("columns", columns, persistent=False)
            window = Window(config.whole, first, last, start, end)
        self._shown = window
        return stage_windows(window, len(config.channels) - 1), sampled

    @property
    def every_stage(self) -> list[Stage]:
        """The stages in their order."""
        return cast("list[Stage]", list(self.stages))

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """As `Prior.map`."""
        return truncate(self.mapping(z)[:, None, :], self.mapping.mean, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """As `Prior.synthesize`."""
        w = spread_over_places(w, num_ws=1, w_dim=self.w_dim)[:, 0]
        if w.device.type != "cpu" or len(w) <= self._at_once:
            return self._made(w)
        return torch.cat([self._made(some) for some in w.split(self._at_once)])

    def features(self, w: Tensor, stages: int) -> Tensor:
        """w [n, w_dim] -> the features after so many stages [n, s, s, C], those in the frame's window."""
        x = self.first(w)
        part = whole(4)
        for stage, (computed, needed) in zip(self.every_stage[:stages], self._windows, strict=False):
            x = stage(computed.before().within(part, x), w, computed)
            x, part = needed.within(computed, x), needed
        return x

    def _made(self, w: Tensor) -> Tensor:
        picture = self.to_image(self.features(w, len(self.stages)), w)
        if not self._sampled:
            return picture
        have = self._windows[-1][1].doubled
        rows = slice(self._shown.top - have.top, self._shown.bottom - have.top)
        picture = picture[:, :, rows, self._shown.left - have.left : self._shown.right - have.left]
        return self.rows @ picture @ self.columns.T
