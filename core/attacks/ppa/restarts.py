"""Further descents from around every candidate, so that a start from which no gradient leads is not the last."""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.attacks.ppa.adaptive_config import Restarts
from smoothsweep.core.seeds import generator


def around(
    starts: tuple[Tensor, Tensor, Tensor], w_pool: Tensor, restarts: Restarts, *, seed: int, target_class: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What stage 1 left (w0 [K, P, w_dim], pool indices [K], confidences [K]), `count` times one after the other.

    The first time as it is; then w0 moved by Gaussian noise of `spread` standard deviations of each coordinate over the
    pool w_pool [S, P or more, w_dim]. Indices and confidences remain those of the candidate in the middle.
    """
    w0, index, confidence = starts
    scale = restarts.spread * w_pool[:, : w0.shape[1]].std(0, unbiased=False).to(w0)
    moved = [
        w0 + scale * torch.randn(w0.shape, generator=generator(seed, target_class, "restart", number)).to(w0)
        for number in range(1, restarts.count)
    ]
    return torch.cat([w0, *moved]), index.repeat(restarts.count), confidence.repeat(restarts.count)
