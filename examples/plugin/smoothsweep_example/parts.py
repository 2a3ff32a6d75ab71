"""Public images as sums of parts (non-negative matrix factorisation, Lee and Seung, Nature 1999)."""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.priors.base import PriorNetwork, spread_over_places, truncate
from smoothsweep_example.parts_settings import PartsConfig, PartsFit

LEAST = 1e-6


class Parts(PriorNetwork):
    """Images = 2 sum_k exp(mean_k + std_k w_k) part_k - 1, w ~ N(0, 1) in each coordinate.

    Buffers: parts [K, 3RR] >= 0; mean, std [K], of the logarithms of how much of each part public images have.
    """

    parts: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, config: PartsConfig) -> None:
        super().__init__(config)
        self.register_buffer("parts", torch.zeros(config.parts, 3 * config.resolution**2))
        self.register_buffer("mean", torch.zeros(config.parts))
        self.register_buffer("std", torch.zeros(config.parts))

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [n, K] -> w float32 [n, 1, K]: the same numbers."""
        return truncate(z.to(self.mean)[:, None, :], 0.0, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, 1, K] -> images float32 [n, 3, R, R]."""
        w = spread_over_places(w, num_ws=1, w_dim=self.w_dim)[:, 0]
        flat = 2 * (self.mean + self.std * w).exp() @ self.parts - 1
        return flat.reshape(len(w), 3, self.resolution, self.resolution)


def from_public(settings: PartsFit, images: Tensor) -> Parts:
    """Multiplicative updates from a seeded start. images: uint8 [N, 3, R, R]."""
    settings.check_public(count=len(images))
    draw = torch.Generator().manual_seed(settings.seed)
    pixels = images.reshape(len(images), -1).float() / 255
    amounts = torch.rand(len(pixels), settings.parts, generator=draw) + LEAST
    parts = torch.rand(settings.parts, pixels.shape[1], generator=draw) + LEAST
    for _ in range(settings.rounds):
        parts *= amounts.T @ pixels / (amounts.T @ amounts @ parts + LEAST)
        amounts *= pixels @ parts.T / (amounts @ (parts @ parts.T) + LEAST)
    prior = Parts(PartsConfig(resolution=images.shape[-1], parts=settings.parts))
    logs = amounts.clamp_min(LEAST).log()
    prior.parts.copy_(parts)
    prior.mean.copy_(logs.mean(0))
    prior.std.copy_(logs.std(0))
    return prior.eval()
