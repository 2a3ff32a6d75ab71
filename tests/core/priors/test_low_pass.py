"""The low-pass filter of GPUs is the depthwise convolution that CPUs run, its gradients too."""

import pytest
import torch
import torch.nn.functional as F

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
