"""A separable low-pass filter as sums of shifted images, for GPUs.

As a depthwise convolution in channels-last memory, the filter of StyleGAN2 took almost half of an attack's kernels on
an H200 (docs/gpu.md). Sums of shifted images only read and write memory, and a compiler fuses them. CPUs keep the
convolution, and with it the numbers of earlier versions.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def low_pass(x: Tensor, kernel: Tensor, *, padding: int) -> Tensor:
    """`x` [N, C, H, W] correlated with a separable `kernel` [k, k] in every channel, zeros around it.

    kernel: an outer product of two lines, its sum not zero. padding: pixels on every side, 0 to k - 1. Gives
    [N, C, H + 2 padding - k + 1, ...]; as a depthwise convolution but for rounding. Differentiable any number of times
    by x, not by the kernel.
    """
    filtered: Tensor = _LowPass.apply(x, kernel.sum(dim=1), kernel.sum(dim=0) / kernel.sum(), padding)
    return filtered


class _LowPass(torch.autograd.Function):
    """Its own gradient is the same filter turned round: autograd's would be a padded copy for every shift."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, down: Tensor, across: Tensor, padding: int) -> Tensor:
        ctx.save_for_backward(down, across)
        ctx.padding = padding
        padded = F.pad(x, (padding,) * 4) if padding else x
        return _along(_along(padded, down, dim=2), across, dim=3)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        down, across = ctx.saved_tensors
        back = _LowPass.apply(grads[0], down.flip(0), across.flip(0), len(down) - 1 - ctx.padding)
        return back, None, None, None


def _along(x: Tensor, taps: Tensor, *, dim: int) -> Tensor:
    length = x.shape[dim] - len(taps) + 1
    total = x.narrow(dim, 0, length) * taps[0]
    for shift in range(1, len(taps)):
        # not in place: torch.compile (2.11) then gives a wrong gradient, without a word
        total = torch.addcmul(total, x.narrow(dim, shift, length), taps[shift])
    return total
