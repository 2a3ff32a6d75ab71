"""The low-pass filter of `benchmarks.gpu`: a depthwise convolution, sums of shifted images, and these compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu_training import device
from smoothsweep.core.priors.stylegan2_ops import fir_kernel, low_pass
from smoothsweep.core.seeds import generator

PASSES = 5
"""Timed passes, after one that warms up."""


def filter_times(*, smoke: bool) -> Iterator[tuple[str, str]]:
    """What was run, and its milliseconds for a forward pass and for one with its gradient.

    The size is that of the last layer of the 1024-pixel generator, 25 images: [25, 32, 1027, 1027] in bf16.
    """
    shape = (1, 4, 19, 19) if smoke else (25, 32, 1027, 1027)
    channels = shape[1]
    kernel = fir_kernel().to(device(), torch.bfloat16)
    weight = kernel.expand(channels, 1, 4, 4)
    x = torch.randn(shape, generator=generator(0, "filter")).to(device(), torch.bfloat16)

    def convolution(x: Tensor) -> Tensor:
        return F.conv2d(x, weight, padding=1, groups=channels)

    def sums(x: Tensor) -> Tensor:
        return low_pass(x, kernel, padding=1)

    last, first = x.contiguous(memory_format=torch.channels_last), x
    yield "depthwise convolution, channels last", _times(convolution, last)
    yield "depthwise convolution, channels first", _times(convolution, first)
    yield "sums of shifted images, channels last", _times(sums, last)
    compiled: Callable[[Tensor], Tensor] = torch.compile(sums, backend="eager" if smoke else "inductor", dynamic=False)
    yield "sums of shifted images, compiled", _times(compiled, last)
    yield from _with_its_convolution(kernel, smoke=smoke)


def _with_its_convolution(kernel: Tensor, *, smoke: bool) -> Iterator[tuple[str, str]]:
    """The layer's transposed convolution and the filter behind it, and both as one convolution of 6 x 6."""
    rows, inputs, outputs, side = (1, 8, 4, 8) if smoke else (25, 64, 32, 512)
    source = generator(0, "up")
    x = torch.randn((rows, inputs, side, side), generator=source).to(device(), torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.randn((outputs, inputs, 3, 3), generator=source).to(device(), torch.bfloat16)
    joined = with_filter(weight.float(), kernel.float() * 4).to(torch.bfloat16)
    joined = joined.contiguous(memory_format=torch.channels_last)

    def two(x: Tensor) -> Tensor:
        return low_pass(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2), kernel * 4, padding=1)

    yield "the last up-sampling layer, convolution and sums", _times(two, x)
    yield (
        "the last up-sampling layer, one convolution of 6 x 6",
        _times(lambda x: F.conv_transpose2d(x, joined, stride=2, padding=2), x),
    )


def with_filter(weight: Tensor, kernel: Tensor) -> Tensor:
    """[O, I, 3, 3] of a transposed convolution and the kernel of `low_pass` behind it -> [I, O, 6, 6], both in one."""
    taps = kernel.flip((0, 1))[None, None].expand(weight.shape[0], 1, -1, -1)
    return F.conv_transpose2d(weight.transpose(0, 1), taps, groups=weight.shape[0])


def _times(function: Callable[[Tensor], Tensor], x: Tensor) -> str:
    x = x.detach().requires_grad_(True)
    weights = torch.ones_like(function(x.detach()))

    def with_gradient() -> None:
        torch.autograd.grad(function(x), x, weights)

    return (
        f"{_milliseconds(lambda: function(x.detach())):.2f} ms; with its gradient {_milliseconds(with_gradient):.2f} ms"
    )


def _milliseconds(run: Callable[[], object]) -> float:
    run()
    _wait()
    started = time.perf_counter()
    for _ in range(PASSES):
        run()
    _wait()
    return (time.perf_counter() - started) / PASSES * 1000


def _wait() -> None:
    if device().type == "cuda":
        torch.cuda.synchronize()
