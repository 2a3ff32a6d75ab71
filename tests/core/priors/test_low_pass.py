"""The low-pass filter of GPUs is the depthwise convolution that CPUs run, its gradients too."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from smoothsweep.core.priors import stylegan2_ops
from smoothsweep.core.priors.stylegan2_ops import low_pass

UNLIKE = torch.outer(torch.tensor([1.0, 4.0, 2.0, 0.5]), torch.tensor([3.0, -1.0, 0.25, 2.0])).double()


def convolved(x, kernel, padding):
    channels = x.shape[1]
    return F.conv2d(x, kernel.expand(channels, 1, *kernel.shape), padding=padding, groups=channels)


def images(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("padding", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 5, 9), (1, 1, 8, 4)])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_it_is_a_depthwise_convolution_with_both_lines_told_apart(padding, shape, memory):
    x = images(*shape).contiguous(memory_format=memory)
    found = low_pass(x, UNLIKE, padding=padding)
    torch.testing.assert_close(found, convolved(x, UNLIKE, padding), atol=1e-12, rtol=1e-12)
    assert found.is_contiguous(memory_format=memory)


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_its_gradients_hold_once_and_twice(padding):
    x = images(1, 2, 5, 6).requires_grad_(True)
    curved = lambda x: low_pass(x, UNLIKE, padding=padding).square()  # noqa: E731 - of second order, so that it shows
    assert torch.autograd.gradcheck(curved, x)
    assert torch.autograd.gradgradcheck(curved, x)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile does it itself
def test_compiled_its_gradient_is_the_same():
    x, weights = images(1, 2, 6, 7).requires_grad_(True), images(1, 2, 5, 6, seed=1)
    compiled = torch.compile(lambda x: low_pass(x, UNLIKE, padding=1), backend="aot_eager", fullgraph=True)
    (found,) = torch.autograd.grad((compiled(x) * weights).sum(), x)
    (exact,) = torch.autograd.grad((convolved(x, UNLIKE, 1) * weights).sum(), x)
    torch.testing.assert_close(found, exact, atol=1e-12, rtol=1e-12)


def test_in_half_precision_it_is_off_by_rounding():
    x = images(2, 4, 16, 16)
    low = low_pass(x.bfloat16(), stylegan2_ops.fir_kernel().bfloat16(), padding=1).double()
    exact = convolved(x, stylegan2_ops.fir_kernel().double(), 1)
    assert float((low - exact).norm() / exact.norm()) < 2**-7  # bfloat16 keeps eight bits


def test_a_gpu_filters_by_sums_and_a_cpu_by_a_convolution(monkeypatch):
    asked = []

    def noted(x, kernel, *, padding):
        asked.append((x.device.type, padding))
        return low_pass(x, kernel, padding=padding)

    monkeypatch.setattr(stylegan2_ops, "low_pass", noted)
    kernel, weight = stylegan2_ops.fir_kernel(), torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    on_cpu = stylegan2_ops.conv2d_resampled(torch.ones(1, 3, 8, 8), weight, kernel, up=2)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.ones(1, 3, 8, 8, device="cuda")
        on_gpu = stylegan2_ops.conv2d_resampled(x, weight.cuda(), kernel.cuda(), up=2)
    assert asked == [("cuda", 1)]
    assert on_gpu.shape == on_cpu.shape
