"""What generator and discriminator share: the fully connected layer and how weights begin."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from smoothsweep.core.priors.stylegan2_ops import bias_act


class FullyConnected(nn.Module):
    """x [..., inputs] -> [..., outputs] with a weight scaled at run time (equalised learning rate).

    Stored weights are 1 / `learning_rate` too large, and both weight and bias are multiplied by it when used.
    """

    def __init__(
        self, inputs: int, outputs: int, *, lrelu: bool = False, learning_rate: float = 1.0, bias: float = 0.0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.full((outputs,), bias))
        self.lrelu = lrelu
        self.learning_rate = learning_rate

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * (self.learning_rate / math.sqrt(self.weight.shape[1]))
        bias = self.bias * self.learning_rate
        if self.lrelu:
            return bias_act(x @ weight.T, bias)
        return torch.addmm(bias, x, weight.T)


def initialise(network: nn.Module, seed: int) -> None:
    """Fill every parameter and noise map of a new network from one seeded stream, in state-dict order.

    Weights, the constant input and the noise maps are N(0, 1), mapping weights N(0, 1) / 0.01. Biases keep
    their constructor's value, noise strengths and the mean of w stay 0.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = dict(network.named_modules())
    with torch.no_grad():
        for name, tensor in network.state_dict(keep_vars=True).items():
            if tensor.is_meta:
                return  # a skeleton that is only asked for its shapes
            owner, _, leaf = name.rpartition(".")
            if leaf in ("weight", "const", "noise_const"):
                scale = 1 / getattr(layers[owner], "learning_rate", 1.0)
                tensor.copy_(torch.randn(tensor.shape, generator=generator, device="cpu") * scale)
