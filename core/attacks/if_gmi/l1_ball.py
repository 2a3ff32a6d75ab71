"""The L1 ball around where a stage began, which its latents and feature maps do not leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def l1_balls(start: Tensor, spans: Sequence[slice], radius: float) -> Callable[[Tensor], Tensor]:
    """What brings rows [B, N] back to within `radius` of those of `start` [B, N], in each span of columns by itself.

    The nearest point of the ball by Euclid's distance; what lies inside stays as it is, bit for bit.
    """

    def nearest(rows: Tensor) -> Tensor:
        for span in spans:
            moved = rows[:, span] - start[:, span]
            outside = moved.abs().sum(1, dtype=torch.float64) > radius
            if bool(outside.any()):
                rows = rows.clone()
                back = torch.stack([on_l1_ball(row, radius) for row in moved[outside]])
                rows[outside, span] = start[outside, span] + back
        return rows

    return nearest


def on_l1_ball(change: Tensor, radius: float) -> Tensor:
    """The point of L1 norm `radius` that is nearest to a `change` [N] of a larger norm: every entry shrunk by as much.

    By how much is found without sorting (Michelot 1986): the entries that the shrinking leaves grow fewer, in at most N
    rounds and rarely more than ten, since a feature map has millions of them.
    """
    kept = change.abs().double()
    while True:
        shrunk_by = (kept.sum() - radius) / len(kept)
        left = kept[kept > shrunk_by]
        if len(left) in (0, len(kept)):
            break
        kept = left
    return change.sign() * (change.abs() - shrunk_by).clamp_min(0).to(change.dtype)
