"""PLG-MI's generator and discriminator against the official ones, and what spectral norm has to be."""

import math

import pytest
import torch

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import (
    ConditionalGenerator,
    with_class,
)
from smoothsweep.core.attacks.plg.discriminator import ProjectionDiscriminator
from smoothsweep.core.errors import InputError
from tests.lowres import images64, kept_pixels, normal, s
from tests.plg import fill, golden, official, shapes

FULL, SMALL = ConditionalConfig(classes=1000), ConditionalConfig(classes=7, z_dim=16, width=4)


def size_of(network):
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_number_of_parameters_is_the_official_one():
    with torch.device("meta"):
        assert size_of(ConditionalGenerator(FULL)) == 17_973_379
        assert size_of(ProjectionDiscriminator(FULL)) == 11_165_441


def test_a_narrow_pair_has_the_official_tensors_in_the_official_shapes():
    for which, network in (("G", ConditionalGenerator(SMALL)), ("D", ProjectionDiscriminator(SMALL))):
        ours = {official(name, which): tuple(value.shape) for name, value in network.state_dict().items()}
        assert ours == shapes(f"plg_gan_{which}_shapes")


def test_the_generator_gives_the_official_images_and_gradients():
    network = fill(ConditionalGenerator(FULL), "PLGG", "G", 1.0).eval()
    z, labels = normal("net_z128b", (4, 128)).requires_grad_(), golden("net_PLGG_y")
    images = network(z, labels)
    torch.testing.assert_close(kept_pixels(images), golden("net_PLGG_eval"), rtol=0, atol=5e-5)
    (gradient,) = torch.autograd.grad((images * s("net_PLGG_w", (4, 3, 64, 64))).sum(), z)
    torch.testing.assert_close(gradient, golden("net_PLGG_eval_grad_z"), rtol=0, atol=5e-5)
    torch.testing.assert_close(kept_pixels(network.train()(z, labels)), golden("net_PLGG_train"), rtol=0, atol=5e-5)


def test_the_discriminator_moves_its_spectral_norm_once_a_pass():
    network = fill(ProjectionDiscriminator(FULL), "PLGD", "D", 1.0).train()
    images, labels = images64(), golden("net_PLGG_y")
    for name in ("train_1", "train_2"):
        torch.testing.assert_close(network(images, labels), golden(f"net_PLGD_{name}"), rtol=0, atol=1e-5)
    moved = torch.cat([network.linear.weight_u, network.embed.weight_u[:15]])
    torch.testing.assert_close(moved, golden("net_PLGD_u_l6_ly_head"), rtol=0, atol=1e-5)
    torch.testing.assert_close(network.eval()(images, labels), golden("net_PLGD_eval_after"), rtol=0, atol=1e-5)
    assert torch.equal(torch.cat([network.linear.weight_u, network.embed.weight_u[:15]]), moved)


def test_the_initialiser_reaches_the_weights_behind_the_spectral_norm():
    network = ProjectionDiscriminator(FULL)
    expected = {
        "blocks.1.conv1": math.sqrt(2) * math.sqrt(6 / (2 * 64 * 9)),
        "blocks.0.shortcut": math.sqrt(6 / 67),
        "linear": math.sqrt(6 / 1025),
        "embed": math.sqrt(6 / 2024),
    }
    assert expected["blocks.1.conv1"] == pytest.approx(0.10206, abs=1e-5)
    for name, bound in expected.items():
        largest = network.get_submodule(name).weight_orig.detach().abs().max().item()
        assert 0.9 * bound < largest <= bound * (1 + 1e-6)


def test_latents_carry_their_class_to_the_decoder():
    for output in ("signed", "unit"):
        network = fill(
            ConditionalGenerator(ConditionalConfig(classes=7, z_dim=16, width=4, output=output)), "PLGGs", "G", 1.4
        ).eval()
        z = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
        made = network(z, torch.full((3,), 5))
        expected = made if output == "signed" else 2 * made - 1
        torch.testing.assert_close(network.synthesize(with_class(z, 5)), expected, rtol=0, atol=1e-4)
        assert not torch.allclose(network.synthesize(with_class(z, 4)), expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resolution": 224}, "resolution: expected 16, 32 or 64, got 224"),
        ({"width": 0}, "width"),
        ({"classes": 0}, "classes"),
        ({"z_dim": 0}, "z_dim"),
        ({"output": "bytes"}, "output: expected one of signed"),
    ],
)
def test_networks_that_there_are_not_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        ConditionalConfig(**{"classes": 3, **wrong})
