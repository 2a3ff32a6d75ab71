"""Layers that draw their own noise in evaluation: the same calls give the same numbers."""

from __future__ import annotations

from typing import Self

from torch import Generator, nn


class OwnNoise(nn.Module):
    """Stands before the layer's own class. seed; noise: a generator on the CPU, which evaluation mode starts anew."""

    seed: int
    noise: Generator

    def seed_noise(self, seed: int) -> None:
        """Start the noise of evaluation anew: the same calls from here on give the same numbers."""
        self.seed, self.noise = seed, Generator().manual_seed(seed)

    def train(self, mode: bool = True) -> Self:
        """Switch the mode; evaluation mode starts its noise anew."""
        if not mode:
            self.seed_noise(self.seed)
        return super().train(mode)
