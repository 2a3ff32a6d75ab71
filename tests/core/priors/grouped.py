"""Modulated convolution by its definition, which ours is compared with."""

from torch import Tensor

from smoothsweep.core.priors.stylegan2_ops import EPSILON, conv2d_resampled


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
