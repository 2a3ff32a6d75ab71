"""StyleGAN2 and its operations against the official code (tests/golden/stylegan2.npz)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.priors import stylegan2_ops as ops
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import (
    FrozenSynthesis,
    StyleGAN2,
    StyleGAN2Discriminator,
    minibatch_deviation,
    window_margins,
)
from smoothsweep.core.priors.stylegan2_ops import fir_kernel, low_pass

GOLDEN = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "stylegan2.npz", allow_pickle=False).items()
}
SHAPE = {"resolution": 32, "z_dim": 64, "w_dim": 64, "mapping_layers": 2, "channel_base": 512, "channel_max": 32}
TINY = {"resolution": 8, "z_dim": 6, "w_dim": 5, "mapping_layers": 1, "channel_base": 32, "channel_max": 4}
IMAGE, LOGIT, GRADIENT = 2e-5, 1e-5, 5e-6


def close(actual, name, tolerance):
    torch.testing.assert_close(actual, GOLDEN[name], atol=tolerance, rtol=0)


def official_state(prefix):
    """The golden weights without the constant FIR buffers, which are checked instead of loaded."""
    state = {name.removeprefix(prefix): value for name, value in GOLDEN.items() if name.startswith(prefix)}
    filters = [name for name in state if name.endswith("resample_filter")]
    for name in filters:
        torch.testing.assert_close(state.pop(name), fir_kernel())
    assert filters
    return state


@pytest.fixture(scope="module")
def generator():
    network = StyleGAN2(StyleGAN2Config(**SHAPE)).eval().requires_grad_(False)
    network.load_state_dict(official_state("G."))
    return network


@pytest.fixture(scope="module")
def discriminator():
    network = StyleGAN2Discriminator(StyleGAN2Config(**SHAPE)).eval().requires_grad_(False)
    network.load_state_dict(official_state("D."))
    return network


def clamped(network):
    clone = type(network)(StyleGAN2Config(**SHAPE, conv_clamp=GOLDEN["clamp"].item())).requires_grad_(False)
    clone.load_state_dict(network.state_dict())
    return clone


def test_every_official_tensor_has_its_place(generator, discriminator):
    for network, prefix in ((generator, "G."), (discriminator, "D.")):
        shapes = {name: value.shape for name, value in network.state_dict().items()}
        assert shapes == {name: value.shape for name, value in official_state(prefix).items()}


def test_mapping(generator):
    z = GOLDEN["z"].double()
    close(generator.map(z), "w_psi1", 5e-6)
    close(generator.map(z, psi=0.5, cutoff=2), "w_psi05_cut2", 5e-6)
    close(generator.map(z, psi=0.5), "w_psi05_nocut", 5e-6)
    close(generator.map(z, psi=0.5, cutoff=8), "w_psi05_nocut", 5e-6)


@pytest.mark.parametrize(
    ("w", "image"), [("w_psi1", "img_psi1"), ("w_psi05_cut2", "img_psi05_cut2"), ("wplus", "img_wplus")]
)
def test_synthesis(generator, w, image):
    close(generator.synthesize(GOLDEN[w]), image, IMAGE)


def test_synthesis_with_fresh_noise(generator):
    w = GOLDEN["wplus"]
    fresh = generator.random_noise(len(w), torch.Generator().manual_seed(0))
    assert (generator.synthesis(w, fresh) - GOLDEN["img_wplus"]).abs().max() > 0.1


def test_clamp_acts_in_single_precision(generator, discriminator):
    close(clamped(generator).synthesize(GOLDEN["w_psi1"]), "img_psi1_clamp", IMAGE)
    close(clamped(discriminator)(GOLDEN["img_psi1"]), "logits_psi1_clamp", LOGIT)


def test_discriminator(discriminator):
    images = GOLDEN["img_psi1"]
    close(discriminator(images), "logits_psi1", LOGIT)
    close(discriminator(GOLDEN["img_psi05_cut2"]), "logits_psi05_cut2", LOGIT)
    close(discriminator(images[:2]), "logits_psi1_first2", LOGIT)
    close(torch.cat([discriminator(image[None]) for image in images]), "logits_psi1_single", LOGIT)


def test_gradients_of_a_weighted_mean(generator):
    w = GOLDEN["w_psi1"].clone().requires_grad_()
    loss = (generator.synthesize(w) * GOLDEN["loss_weights"]).mean()
    loss.backward()
    close(loss.detach(), "lossA", 1e-6)
    close(w.grad, "gradA_w", GRADIENT)
    z = GOLDEN["z"].clone().requires_grad_()
    (generator.synthesize(generator.map(z)) * GOLDEN["loss_weights"]).mean().backward()
    close(z.grad, "gradA_z", GRADIENT)


def test_gradients_through_the_discriminator(generator, discriminator):
    def realness_loss(images):
        return torch.nn.functional.softplus(-discriminator(images)).mean()

    w = GOLDEN["w_psi1"].clone().requires_grad_()
    loss = realness_loss(generator.synthesize(w))
    loss.backward()
    close(loss.detach(), "lossB", 1e-6)
    close(w.grad, "gradB_w", GRADIENT)
    shared = GOLDEN["w_psi1"][:, :1].clone().requires_grad_()
    realness_loss(generator.synthesize(shared)).backward()
    close(shared.grad, "gradB_w_shared", GRADIENT)
    images = GOLDEN["img_psi1"].clone().requires_grad_()
    realness_loss(images).backward()
    close(images.grad, "gradB_img", GRADIENT)


def test_the_official_1024_pixel_networks_have_these_sizes():
    with torch.device("meta"):
        generator, discriminator = StyleGAN2(StyleGAN2Config()), StyleGAN2Discriminator(StyleGAN2Config())
    assert generator.num_ws == 18
    assert sum(weight.numel() for weight in generator.parameters()) == 30_370_060
    assert sum(weight.numel() for weight in discriminator.parameters()) == 29_012_513
    # The official files hold one constant filter more per 3x3 layer and per block (26 and 34 of them).
    assert len(generator.state_dict()) == 182 - 26
    assert len(discriminator.state_dict()) == 82 - 34
    config = StyleGAN2Config(resolution=256, channel_base=16384)
    assert (config.num_ws, config.channels(32), config.channels(64), config.channels(256)) == (14, 512, 256, 64)


def test_minibatch_deviation_in_closed_form():
    x = torch.tensor([0.0, 10.0, 2.0, 16.0]).reshape(4, 1, 1, 1).expand(4, 2, 3, 3)
    strided = minibatch_deviation(x, 2)
    assert strided.shape == (4, 1, 3, 3)
    torch.testing.assert_close(strided[:, 0, 0, 0], torch.tensor([1.0, 3.0, 1.0, 3.0]))
    whole = minibatch_deviation(x, None)
    torch.testing.assert_close(whole, torch.full_like(whole, np.std([0, 10, 2, 16])))
    torch.testing.assert_close(minibatch_deviation(x[:1], 4), torch.full((1, 1, 3, 3), 1e-4))
    with pytest.raises(ValueError, match="multiple of the minibatch-std group 3"):
        minibatch_deviation(x, 3)


def test_new_networks_are_a_function_of_the_seed():
    first, again, other = (StyleGAN2(StyleGAN2Config(**TINY), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["synthesis.b4.const"], other["synthesis.b4.const"])
    assert first["mapping.fc0.weight"].std() == pytest.approx(100, rel=0.5)
    assert not first["mapping.fc0.bias"].any() and not first["synthesis.b8.conv0.noise_strength"].any()
    assert (first["synthesis.b8.conv0.affine.bias"] == 1).all()


def noisy(*, clamp=None, resolution=64, dtype=torch.float64):
    config = StyleGAN2Config(
        resolution=resolution, z_dim=8, w_dim=8, mapping_layers=1, channel_base=256, channel_max=8, conv_clamp=clamp
    )
    prior = StyleGAN2(config, seed=1).to(dtype).requires_grad_(False)
    source = torch.Generator().manual_seed(2)
    for layer in prior.synthesis.noise_layers():  # a new network has neither noise nor biases
        layer.noise_strength.copy_(torch.rand((), generator=source))
        layer.bias.copy_(torch.randn(layer.bias.shape, generator=source) * 0.3)
    return prior


def latents(n=3, places=10, dtype=torch.float64):
    return torch.randn(n, places, 8, generator=torch.Generator().manual_seed(0)).to(dtype)


def frozen(prior, **options):
    return FrozenSynthesis(prior.synthesis, **{"dtype": torch.float64, **options})


@pytest.mark.parametrize("clamp", [None, 1.5])
def test_it_is_the_synthesis_network_and_so_are_its_gradients(clamp):
    prior, w = noisy(clamp=clamp), latents().requires_grad_()
    expected, found = prior.synthesis(w), frozen(prior)(w)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    gradients = [torch.autograd.grad((image * weights).sum(), w)[0] for image in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-9, rtol=1e-9)


@settings(max_examples=12, deadline=None)
@given(crop=st.integers(1, 32).map(lambda half: 2 * half))
def test_a_crop_is_the_centre_of_the_whole_image(crop):
    prior, w, margin = noisy(), latents(n=2), (64 - crop) // 2
    whole = prior.synthesis(w)[:, :, margin : 64 - margin, margin : 64 - margin]
    torch.testing.assert_close(frozen(prior, crop=crop)(w), whole, atol=1e-10, rtol=0)


def test_gradients_through_a_crop_are_those_of_the_cropped_image():
    prior, w = noisy(), latents(n=2).requires_grad_()
    expected = torch.autograd.grad(prior.synthesis(w)[:, :, 7:57, 7:57].square().sum(), w)[0]
    found = torch.autograd.grad(frozen(prior, crop=50)(w).square().sum(), w)[0]
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_margins_of_the_paper():
    sides = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert window_margins(sides, 800) == [0, 0, 0, 0, 4, 11, 25, 54, 112]
    assert window_margins(sides, None) == window_margins(sides, 1024) == [0] * 9


def test_single_precision_is_close_and_bfloat16_is_coarse():
    prior, w = noisy(dtype=torch.float32), latents(dtype=torch.float32)
    expected = prior.synthesis(w)
    torch.testing.assert_close(
        FrozenSynthesis(prior.synthesis)(w), expected, atol=1e-5 * float(expected.abs().max()), rtol=0
    )
    coarse = FrozenSynthesis(prior.synthesis, dtype=torch.bfloat16)(w)
    error = (coarse - expected).abs().max() / expected.abs().max()
    assert coarse.dtype == torch.float32 and 1e-5 < error < 0.1


GOLDEN_STYLEGAN2_OPS = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "stylegan2.npz", allow_pickle=False).items()
    if name.startswith("prim") or name == "fir_1331"
}
KERNEL, SYMMETRIC = GOLDEN_STYLEGAN2_OPS["prim_f"], ops.fir_kernel()


def close_of_stylegan2_ops(actual, name):
    torch.testing.assert_close(actual, GOLDEN_STYLEGAN2_OPS[name], atol=5e-6, rtol=0)


def test_fir_kernel():
    close_of_stylegan2_ops(ops.fir_kernel(), "fir_1331")


def test_resampling_by_two():
    x = GOLDEN_STYLEGAN2_OPS["prim_x"]
    close_of_stylegan2_ops(ops.upsample2d(x, KERNEL), "prim_upsample2d")
    close_of_stylegan2_ops(ops.downsample2d(x, KERNEL), "prim_downsample2d")


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
    close_of_stylegan2_ops(
        ops.conv2d_resampled(GOLDEN_STYLEGAN2_OPS["prim_x6"], GOLDEN_STYLEGAN2_OPS[weight], KERNEL, **resampling), name
    )


def test_modulated_convolutions():
    form = ops.modulated_conv2d
    x, w3, w1, style = (GOLDEN_STYLEGAN2_OPS[f"prim_{name}"] for name in ("x6", "w3", "w1", "styles"))
    close_of_stylegan2_ops(form(x, w3, style, KERNEL, up=2) + GOLDEN_STYLEGAN2_OPS["prim_noise"], "prim_modconv_up2")
    close_of_stylegan2_ops(form(x, w3, style, KERNEL), "prim_modconv")
    close_of_stylegan2_ops(form(x, w1, style, KERNEL, demodulate=False), "prim_modconv_nodemod")


def test_bias_act():
    close_of_stylegan2_ops(
        ops.bias_act(GOLDEN_STYLEGAN2_OPS["prim_x6"], GOLDEN_STYLEGAN2_OPS["prim_b"], gain=1.0, clamp=0.9),
        "prim_bias_act",
    )


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
