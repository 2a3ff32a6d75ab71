from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.yardstick import _fused_modulated_conv, upfirdn2d
from smoothsweep.core.priors import stylegan2_ops as ops
from smoothsweep.core.priors.stylegan2_ops import low_pass

GOLDEN = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "stylegan2.npz", allow_pickle=False).items()
    if name.startswith("prim") or name == "fir_1331"
}
KERNEL, SYMMETRIC = GOLDEN["prim_f"], ops.fir_kernel()


def close(actual, name):
    torch.testing.assert_close(actual, GOLDEN[name], atol=5e-6, rtol=0)


def test_fir_kernels():
    close(ops.fir_kernel(), "fir_1331")
    close(ops.fir_kernel([1, 2, 3, 5]), "prim_f")


def test_general_resampler():
    x = GOLDEN["prim_x"]
    close(upfirdn2d(x, KERNEL, up=2, padding=(2, 1, 2, 1), gain=4), "prim_upfirdn_u2_d1")
    close(upfirdn2d(x, KERNEL, down=2, padding=(1, 1, 1, 1)), "prim_upfirdn_u1_d2")
    cropped = upfirdn2d(x, KERNEL, up=2, padding=(-1, 3, 2, -1), flip_kernel=True)
    close(cropped, "prim_upfirdn_crop")


def test_resampling_by_two():
    x = GOLDEN["prim_x"]
    close(ops.upsample2d(x, KERNEL), "prim_upsample2d")
    close(ops.downsample2d(x, KERNEL), "prim_downsample2d")
    close(upfirdn2d(x, KERNEL, padding=(2, 1, 2, 1)), "prim_filter2d")


@pytest.mark.parametrize(
    ("weight", "resampling", "name"),
    [
        ("prim_w3", {}, "prim_conv_plain"),
        ("prim_w3", {"up": 2}, "prim_conv_up2"),
        ("prim_w3", {"down": 2}, "prim_conv_down2"),
        ("prim_w1", {"down": 2}, "prim_conv1_down2"),
        ("prim_w1", {"up": 2}, "prim_conv1_up2"),
    ],
)
def test_convolutions(weight, resampling, name):
    close(ops.conv2d_resampled(GOLDEN["prim_x6"], GOLDEN[weight], KERNEL, **resampling), name)


def test_modulated_convolutions():
    form = ops.modulated_conv2d
    x, w3, w1, style = (GOLDEN[f"prim_{name}"] for name in ("x6", "w3", "w1", "styles"))
    close(form(x, w3, style, KERNEL, up=2) + GOLDEN["prim_noise"], "prim_modconv_up2")
    close(form(x, w3, style, KERNEL), "prim_modconv")
    close(form(x, w1, style, KERNEL, demodulate=False), "prim_modconv_nodemod")


def test_bias_act():
    close(ops.bias_act(GOLDEN["prim_x6"], GOLDEN["prim_b"], gain=1.0, clamp=0.9), "prim_bias_act")


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 3),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 4),
    side=st.integers(2, 5),
    up=st.sampled_from([1, 2]),
    demodulate=st.booleans(),
    gain=st.floats(0.1, 3),
    seed=st.integers(0, 999),
)
def test_modulation_is_that_of_one_set_of_weights_for_each_image(n, inputs, outputs, side, up, demodulate, gain, seed):
    """The definition, as the public code computes it."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, inputs, side, side, generator=generator)
    weight = torch.randn(outputs, inputs, 3, 3, generator=generator)
    style = torch.randn(n, inputs, generator=generator)
    scaled = ops.modulated_conv2d(x, weight, style, SYMMETRIC, up=up, demodulate=demodulate, gain=gain)
    own = gain * _fused_modulated_conv(x, weight, style, SYMMETRIC, up=up, demodulate=demodulate)
    torch.testing.assert_close(scaled, own, atol=1e-4, rtol=1e-4)


@settings(max_examples=20, deadline=None)
@given(side=st.integers(1, 6), channels=st.integers(1, 3), seed=st.integers(0, 999))
def test_special_forms_equal_the_general_resampler(side, channels, seed):
    x = torch.randn(2, channels, 2 * side, 2 * side, generator=torch.Generator().manual_seed(seed))
    general = upfirdn2d(x, KERNEL, up=2, padding=(2, 1, 2, 1), gain=4)
    torch.testing.assert_close(ops.upsample2d(x, KERNEL), general, atol=1e-5, rtol=0)
    general = upfirdn2d(x, KERNEL, down=2, padding=(1, 1, 1, 1))
    torch.testing.assert_close(ops.downsample2d(x, KERNEL), general, atol=1e-5, rtol=0)


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
