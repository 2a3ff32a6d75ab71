"""Where a gradient-free search moves: the principal directions of a pool's latents, each as long as the pool is wide.

In the 512 coordinates of a StyleGAN2 the covariance of an evolution strategy does not move within thousands of queries;
in a few dozen directions of equal spread it need not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.cma_config import LEAST_DIRECTIONS
from smoothsweep.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PrincipalSpace:
    """Coordinates of latents along the principal directions of a pool, and the box that they stay in.

    Attributes:
        basis: [k, D], a principal direction a row, its length the pool's standard deviation along it.
        low, high: [D], of the box that latents stay in, which is widened to hold the start of a search.
    """

    basis: Tensor
    low: Tensor
    high: Tensor

    def around(self, start: Tensor, moves: Tensor) -> Tensor:
        """Latents [N, D] at moves [N, k] from start [D], cut to the box."""
        low, high = self.low.minimum(start), self.high.maximum(start)
        return (start + moves.to(self.basis) @ self.basis).clamp(low, high)


def principal_space(w: Tensor, components: int, *, width: float, slope: float | None) -> PrincipalSpace:
    """At most `components` directions of latents w [S, D], and the box of `width` standard deviations about the mean.

    slope: of the leaky ReLU that ends the prior's mapping (`PriorNetwork.mapping_slope`), before which the box is
    measured: a StyleGAN2's latents are nearly Gaussian there, and a negative coordinate counts 1 / slope times
    (njuaplusplus/mirror, my_blackbox_mirror.py). None: the latents' own box. Directions without any spread are left
    out. The largest coordinate of a direction is positive. Raises InputError for fewer than `LEAST_DIRECTIONS`.
    """
    w = w.double()
    before = w if slope is None else torch.where(w < 0, w / slope, w)
    reach = width * before.std(0, unbiased=False)
    low, high = before.mean(0) - reach, before.mean(0) + reach
    if slope is not None:
        low, high = (torch.where(end < 0, end * slope, end) for end in (low, high))
    centred = w - w.mean(0)
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(w))
    kept = int((variances > 1e-12 * variances[-1].clamp_min(1e-30)).sum().clamp(max=components))
    if kept < LEAST_DIRECTIONS:
        expected = f"expected latents that differ in at least {LEAST_DIRECTIONS} directions"
        raise InputError(f"attack.pool: {expected}, got {kept}")
    rows, variances = directions.T.flip(0)[:kept], variances.flip(0)[:kept]
    rows = rows * torch.where(rows.gather(1, rows.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0)
    return PrincipalSpace(basis=(rows * variances.sqrt()[:, None]).float(), low=low.float(), high=high.float())
