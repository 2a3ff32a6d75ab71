from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import FrozenSynthesis, StyleGAN2, window_margins


def generator(*, clamp=None, resolution=64, dtype=torch.float64):
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
    prior, w = generator(clamp=clamp), latents().requires_grad_()
    expected, found = prior.synthesis(w), frozen(prior)(w)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    gradients = [torch.autograd.grad((image * weights).sum(), w)[0] for image in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-9, rtol=1e-9)


@settings(max_examples=12, deadline=None)
@given(crop=st.integers(1, 32).map(lambda half: 2 * half))
def test_a_crop_is_the_centre_of_the_whole_image(crop):
    prior, w, margin = generator(), latents(n=2), (64 - crop) // 2
    whole = prior.synthesis(w)[:, :, margin : 64 - margin, margin : 64 - margin]
    torch.testing.assert_close(frozen(prior, crop=crop)(w), whole, atol=1e-10, rtol=0)


def test_gradients_through_a_crop_are_those_of_the_cropped_image():
    prior, w = generator(), latents(n=2).requires_grad_()
    expected = torch.autograd.grad(prior.synthesis(w)[:, :, 7:57, 7:57].square().sum(), w)[0]
    found = torch.autograd.grad(frozen(prior, crop=50)(w).square().sum(), w)[0]
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_margins_of_the_paper():
    sides = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert window_margins(sides, 800) == [0, 0, 0, 0, 4, 11, 25, 54, 112]
    assert window_margins(sides, None) == window_margins(sides, 1024) == [0] * 9


def test_single_precision_is_close_and_bfloat16_is_coarse():
    prior, w = generator(dtype=torch.float32), latents(dtype=torch.float32)
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
        frozen(generator(), crop=crop)
