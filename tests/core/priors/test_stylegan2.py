from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import (
    FrozenSynthesis,
    StyleGAN2,
    StyleGAN2Discriminator,
    minibatch_deviation,
    window_margins,
)
from smoothsweep.core.priors.stylegan2_ops import fir_kernel

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


def test_is_a_prior(generator):
    assert isinstance(generator, Prior)
    assert (generator.z_dim, generator.num_ws, generator.w_dim, generator.resolution) == (64, 8, 64, 32)
    np.testing.assert_array_equal(generator.sample_z(5, seed=3), np.random.RandomState(3).randn(5, 64))


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


def test_synthesis_of_the_unfused_form(generator):
    close(generator.synthesize(GOLDEN["w_psi1"]), "img_psi1_unfused", IMAGE)


def test_synthesis_with_other_noise(generator):
    w = GOLDEN["w_psi1"]
    close(generator.synthesize(w, noise="none"), "img_psi1_nonoise", IMAGE)
    stored = [layer.noise_const.expand(4, 1, -1, -1) for layer in generator.synthesis.noise_layers()]
    close(generator.synthesize(w, noise=stored), "img_psi1", IMAGE)
    fresh = generator.random_noise(4, torch.Generator().manual_seed(0))
    assert [noise.shape for noise in fresh] == [noise.shape for noise in stored]
    assert (generator.synthesize(w, noise=fresh) - GOLDEN["img_psi1"]).abs().max() > 0.1
    with pytest.raises(ValueError, match="expected 'const', 'none' or 7 tensors"):
        generator.synthesize(w, noise="random")


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


@pytest.mark.parametrize("resolution", [8, 16, 64])
def test_new_networks_start_with_sane_images_and_logits(resolution):
    config = StyleGAN2Config(**{**TINY, "resolution": resolution, "channel_base": 256})
    generator, discriminator = StyleGAN2(config), StyleGAN2Discriminator(config)
    images = generator.synthesize(generator.map(torch.from_numpy(generator.sample_z(8, 0))))
    assert images.shape == (8, 3, resolution, resolution) and images.dtype == torch.float32
    assert 0.1 < images.std() < 10
    assert generator.num_ws == 2 * math.log2(resolution) - 2
    assert discriminator(images).shape == (8, 1) and discriminator(images).isfinite().all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resolution": 48}, "resolution: expected a power of two >= 8, got 48"),
        ({"resolution": 4}, "got 4"),
        ({"z_dim": 0}, "z_dim: expected a whole number of at least 1"),
        ({"mbstd_group": 0}, "mbstd_group"),
        ({"resolution": 16, "channel_base": 15}, "channel_base: expected at least 16, got 15"),
        ({"conv_clamp": 0.0}, "conv_clamp"),
    ],
)
def test_refuses_impossible_configurations(wrong, message):
    with pytest.raises(InputError, match=message):
        StyleGAN2Config(**{**TINY, **wrong})


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


@pytest.mark.parametrize("crop", [65, 66, 13])
def test_a_crop_that_is_not_centred_is_refused(crop):
    with pytest.raises(ValueError, match="even distance below 64"):
        frozen(noisy(), crop=crop)
