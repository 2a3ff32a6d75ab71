"""A classifier as attacks on pixels see it: pictures in [0, 1] go in, logits come out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

BATCH = 64  # part of the numbers: random starts are drawn batch by batch


class UnitRangeClassifier(nn.Module):
    """Pictures [N, 3, S, S] in [0, 1] -> logits [N, C] of a classifier that takes them in [-1, 1].

    The change of scale is inside, so that a step of 2/255 is one of the picture's and clipping to [0, 1] is right.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, pictures: Tensor) -> Tensor:
        return self.classifier(pictures.mul(2).sub(1)).float()


@torch.no_grad()
def predictions(model: nn.Module, pictures: Tensor, device: torch.device | str) -> Tensor:
    """int64 [N] on the CPU: the class that the model gives each picture."""
    return torch.cat([model(part.to(device)).argmax(1).cpu() for part in pictures.split(BATCH)])


def image_gradients(
    model: nn.Module, pictures: Tensor, loss: Callable[[Tensor], Tensor], device: torch.device | str
) -> Tensor:
    """The gradient of `loss(logits)` summed over these pictures, with respect to them: [N, 3, S, S] on the CPU."""
    with torch.enable_grad():
        inputs = pictures.to(device).detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(loss(model(inputs)).sum(), inputs)
    return gradient.cpu()
