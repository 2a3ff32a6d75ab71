"""The primitives of StyleGAN2 (arXiv 1912.04958) in plain PyTorch: resampling, activation, modulation.

Shapes: N images, I input and O output channels, k kernel side. A FIR `kernel` is a float [4, 4] that
sums to 1. Convolution weights of up-sampling layers are stored in convolution orientation and all others
in correlation orientation, so no weight is ever flipped. Double differentiable; results match the
reference ops of `NVlabs/stylegan2-ada-pytorch` (torch_utils/ops).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

EPSILON = 1e-8
SLOPE = 0.2


def fir_kernel() -> Tensor:
    """The separable low-pass filter [4, 4] with unit sum."""
    line = torch.tensor((1, 3, 3, 1), dtype=torch.float32)
    square = torch.outer(line, line)
    return square / square.sum()


def bias_act(
    x: Tensor,
    bias: Tensor | None,
    *,
    lrelu: bool = True,
    gain: float = math.sqrt(2),
    clamp: float | None = None,
) -> Tensor:
    """x [N, C, ...] + bias [C] -> leaky ReLU (slope 0.2) if `lrelu` -> times gain -> clamped to +-clamp."""
    if bias is not None:
        x = x + bias.reshape(1, -1, *[1] * (x.ndim - 2))
    if lrelu:
        x = F.leaky_relu(x, SLOPE)
    if gain != 1:
        x = x * gain
    return x if clamp is None else x.clamp(-clamp, clamp)


def upsample2d(x: Tensor, kernel: Tensor) -> Tensor:
    """[N, C, H, W] -> [N, C, 2H, 2W]."""
    return F.conv_transpose2d(x, _depthwise(kernel * 4, x.shape[1]), stride=2, padding=1, groups=x.shape[1])


def downsample2d(x: Tensor, kernel: Tensor) -> Tensor:
    """[N, C, H, W] -> [N, C, H/2, W/2]."""
    return F.conv2d(x, _depthwise(kernel.flip((0, 1)), x.shape[1]), stride=2, padding=1, groups=x.shape[1])


def conv2d_resampled(
    x: Tensor,
    weight: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    down: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Same-size convolution with weight [O, I, k, k] (k 1 or 3), with up- or down-sampling by 2.

    x [N, I, H, W] -> [N, O, H up / down, W up / down]. `bias` [O] is for the forms without up-sampling.
    """
    side = weight.shape[-1]
    if (up, down) not in ((1, 1), (2, 1), (1, 2)) or side not in (1, 3):
        raise ValueError(f"expected up, down 1 or 2, not both 2, side 1 or 3; got {up}, {down}, {side}")
    if up == 2 and bias is not None:
        raise ValueError("bias: a convolution that up-samples adds it later, after the noise")
    if up == 2 and side == 1:
        return upsample2d(F.conv2d(x, weight), kernel)
    if up == 2:
        wide = F.conv_transpose2d(x, weight.transpose(0, 1), stride=2)
        return _blur(wide, kernel * 4, padding=1)
    if down == 2 and side == 1:
        return F.conv2d(downsample2d(x, kernel), weight, bias)
    if down == 2:
        return F.conv2d(_blur(x, kernel, padding=2), weight, bias, stride=2)
    return F.conv2d(x, weight, bias, padding=side // 2)


def modulated_conv2d(
    x: Tensor,
    weight: Tensor,
    style: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    demodulate: bool = True,
    gain: float = 1.0,
) -> Tensor:
    """Convolution with input channels scaled per image by style [N, I], outputs renormalised if `demodulate`.

    One shared convolution between scaled activations: conv(x s) d with d = rsqrt(sum_ik (w s)^2 + eps).
    On a CPU it takes about a quarter less time than one group per image; equal up to rounding (1e-5 on
    images of range 10). `gain` multiplies the output at no cost when demodulating.
    """
    y = conv2d_resampled(x * style[:, :, None, None], weight, kernel, up=up)
    if demodulate:
        return y * (demodulation(weight, style) * gain)[:, :, None, None]
    return y if gain == 1 else y * gain


def demodulation(weight: Tensor, style: Tensor) -> Tensor:
    """[N, O]: the factor that gives every output channel unit variance for white input."""
    energy = weight.square().sum(dim=(2, 3))
    return torch.addmm(energy.new_full((), EPSILON), style.square(), energy.T).rsqrt()


def _blur(x: Tensor, kernel: Tensor, *, padding: int) -> Tensor:
    if x.device.type != "cpu":
        return low_pass(x, kernel.flip((0, 1)), padding=padding)
    channels = x.shape[1]
    return F.conv2d(x, _depthwise(kernel.flip((0, 1)), channels), padding=padding, groups=channels)


def _depthwise(kernel: Tensor, channels: int) -> Tensor:
    return kernel.expand(channels, 1, *kernel.shape)


# As a depthwise convolution in channels-last memory, the filter took almost half of an attack's kernels on an H200
# (docs/gpu.md). Sums of shifted images only read and write memory, and a compiler fuses them. CPUs keep the
# convolution, and with it the numbers of earlier versions.


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
