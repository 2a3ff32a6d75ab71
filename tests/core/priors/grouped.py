"""Resampling and modulated convolution by their definitions, which ours are compared with."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.priors.stylegan2_ops import EPSILON, _depthwise, conv2d_resampled


def upfirdn2d(
    x: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    down: int = 1,
    padding: Sequence[int] = (0, 0, 0, 0),
    gain: float = 1.0,
    flip_kernel: bool = False,
) -> Tensor:
    """The general resampler: insert up - 1 zeros after each sample, pad, convolve, keep every down-th.

    x [N, C, H, W]; padding = (left, right, top, bottom), negative values crop. True convolution;
    `flip_kernel` turns it into correlation.
    """
    n, channels, height, width = x.shape
    x = x.reshape(n, channels, height, 1, width, 1)
    x = F.pad(x, (0, up - 1, 0, 0, 0, up - 1)).reshape(n, channels, height * up, width * up)
    x = F.pad(x, tuple(padding))
    kernel = kernel if flip_kernel else kernel.flip((0, 1))
    return F.conv2d(x, _depthwise(kernel * gain, channels), groups=channels)[:, :, ::down, ::down]


def modulated_conv2d_grouped(
    x: Tensor,
    weight: Tensor,
    style: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    demodulate: bool = True,
    gain: float = 1.0,
) -> Tensor:
    """`modulated_conv2d` by its definition, one set of weights per image."""
    own = weight[None] * style[:, None, :, None, None]
    if demodulate:
        own = own * (own.square().sum(dim=(2, 3, 4), keepdim=True) + EPSILON).rsqrt()
    n, outputs = own.shape[:2]
    y = conv2d_resampled(x.reshape(1, -1, *x.shape[2:]), own.flatten(0, 1), kernel, up=up, groups=n)
    return gain * y.reshape(n, outputs, *y.shape[2:])
