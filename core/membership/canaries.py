"""An audit of DP-SGD as it runs here: canaries whose gradients no other image touches, through the defense's own steps.

Canary i lights one input of a linear classifier, so that its gradient lies in one column of the weights. Every step is
`core.defenses.dp_sgd.DpSgd`: its clipping, noise and division. What is audited is the mechanism with this noise, clip,
rate and number of steps, whatever images it trains on; a noise that is smaller than stated is found.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.base import SmoothedLoss, Step
from smoothsweep.core.defenses.dp_sgd import DpSgd
from smoothsweep.core.metrics.privacy_audit import EpsilonAudit, audit_epsilon

CLASSES = 2


class Columns(nn.Module):
    """A linear classifier without a bias: input [n, 3, S, S] -> logits [n, 2]."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(CLASSES, inputs))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T


def audit_dp_sgd(
    defense: DpSgd, *, canaries: int = 600, rate: float = 1.0, steps: int = 1, delta: float = 1e-5, seed: int = 0
) -> EpsilonAudit:
    """Bounds of the epsilon that this defense spends in so many steps at a sampling rate, in (0, 1].

    canaries: a multiple of 3. Each is inserted by a fair coin. The score of a canary is what the released updates of
    all steps say of its direction: the update's projection on the gradient that it would have.
    """
    side, draw = int(np.ceil(np.sqrt(canaries / 3))), torch.Generator().manual_seed(seed)
    inputs = 3 * side * side
    images = 50.0 * torch.eye(inputs)[:canaries].reshape(canaries, 3, side, side)  # gradients of more than any clip
    inserted = torch.rand(canaries, generator=draw) < 0.5
    chosen = images[inserted]
    batch = max(1, round(rate * len(chosen)))
    scores = torch.zeros(canaries, dtype=torch.float64)
    for step in range(steps):
        model = Columns(inputs)
        taken = torch.rand(len(chosen), generator=draw) < rate
        loss = defense.loss(
            Step(
                model=model,  # ty: ignore[invalid-argument-type]
                forward=model,
                images=chosen[taken],
                labels=torch.zeros(int(taken.sum()), dtype=torch.int64),
                criterion=SmoothedLoss(alpha=0.0),
                epoch=step,
                epochs=steps,
                generator=draw,
                batch_size=batch,
            )
        ).loss
        loss.backward()
        gradient = present(model.weight.grad, "gradient")
        released = gradient[1] - gradient[0]  # each canary's direction is (-1, 1) / sqrt(2)
        scores += released[:canaries].double()
    return audit_epsilon(scores.numpy(), inserted.numpy(), delta=delta)
