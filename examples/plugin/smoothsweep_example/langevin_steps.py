"""The steps themselves. Each row draws from a generator of its own, so that it walks alike in any batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Key
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.seeds import generator


def by_langevin(w: Tensor, *, config: Any, keys: Sequence[tuple[Key, int]]) -> torch.optim.Optimizer:
    """What moves the leaf w [K, ...]; keys: of each row what its class draws by, and which of the class's it is."""
    return LangevinSteps(w, lr=config.lr_at(0), noise=config.noise, keys=keys)


class LangevinSteps(torch.optim.Optimizer):
    """w <- w - lr gradient + sqrt(2 lr noise) e; draws on the CPU, row by row."""

    def __init__(self, w: Tensor, *, lr: float, noise: float, keys: Sequence[tuple[Key, int]]) -> None:
        super().__init__([w], {"lr": lr})
        self._noise = noise
        self._draws = [generator(*key, "langevin", row) for key, row in keys]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One step of every row."""
        for group in self.param_groups:
            for w in group["params"]:
                drawn = [torch.randn(w.shape[1:], generator=draw) for draw in self._draws]
                spread = math.sqrt(2 * group["lr"] * self._noise)
                w.sub_(group["lr"] * w.grad).add_(spread * torch.stack(drawn).to(w))


optimise_by_langevin = partial(optimise, mover=by_langevin)
"""Stage 2 of Plug & Play, arguments as of `optimise`."""
