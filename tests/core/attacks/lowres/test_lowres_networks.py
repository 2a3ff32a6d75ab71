"""Networks of GMI and KED-MI: names, counts and numbers are those of the official code."""

import pytest
import torch

from smoothsweep.core.attacks.gan.config import PlainGanConfig
from smoothsweep.core.attacks.gan.networks import Critic, MinibatchDiscriminator, PlainGenerator
from smoothsweep.core.errors import InputError
from tests.lowres import digest_of, fill, golden, images64, kept_pixels, networks, normal, s, thinned

CLOSE = {"atol": 5e-5, "rtol": 0}
OFFICIAL = {"G64": (PlainGenerator, 0), "DGWGAN": (Critic, 0), "KEDD": (MinibatchDiscriminator, 1000)}


def official(name):
    kind, classes = OFFICIAL[name]
    return fill(kind(PlainGanConfig(classes=classes)), name)


@pytest.mark.parametrize(("name", "parameters"), [("G64", 5_142_083), ("DGWGAN", 4_316_545), ("KEDD", 18_888_936)])
def test_names_shapes_and_counts_are_the_official_ones(name, parameters):
    kind, classes = OFFICIAL[name]
    with torch.device("meta"):
        network = kind(PlainGanConfig(classes=classes))
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert digest_of(shapes) == networks()[name]["sha256"]
    assert sum(p.numel() for p in network.parameters()) == parameters == networks()[name]["parameters"]


def test_the_generator():
    generator = official("G64").eval()
    z = normal("net_z", (4, 100)).requires_grad_(True)
    images = generator(z)
    torch.testing.assert_close(kept_pixels(images), golden("net_G64_eval"), **CLOSE)
    torch.testing.assert_close(images.double().sum((1, 2, 3)), golden("net_G64_eval_sum_per_image"), atol=1e-2, rtol=0)
    (images * s("net_G64_w", images.shape)).sum().backward()
    torch.testing.assert_close(z.grad, golden("net_G64_eval_grad_z"), **CLOSE)
    with torch.no_grad():
        torch.testing.assert_close(kept_pixels(generator.train()(z)), golden("net_G64_train"), **CLOSE)
        shown = generator.eval().synthesize(z[:, None])
        torch.testing.assert_close(shown, 2 * generator(z) - 1)
    moved = torch.stack([generator.l1[1].running_mean[:64], generator.l1[1].running_var[:64]])
    torch.testing.assert_close(moved, golden("net_G64_running_after"), **CLOSE)


def test_the_critic_and_its_gradient():
    critic, images = official("DGWGAN"), images64().requires_grad_(True)
    logits = critic(images)
    torch.testing.assert_close(logits, golden("net_DGWGAN_logit"), **CLOSE)
    logits.sum().backward()
    torch.testing.assert_close(kept_pixels(images.grad), golden("net_DGWGAN_grad_x"), **CLOSE)
    assert torch.equal(critic.eval()(images), logits)


@torch.no_grad()
def test_the_discriminator_couples_the_images_of_a_batch():
    discriminator, images = official("KEDD"), images64()
    features, logits = discriminator(images)
    for name, found in (("feature", features), ("logits", logits)):
        expected = golden(f"net_KEDD_{name}")
        torch.testing.assert_close(thinned(found, expected.shape[1]), expected, **CLOSE)
    torch.testing.assert_close(discriminator.mbd1(features), golden("net_KEDD_minibatch"), **CLOSE)
    torch.testing.assert_close(logits.logsumexp(1), golden("net_KEDD_logsumexp"), **CLOSE)
    torch.testing.assert_close(features.double().sum(1), golden("net_KEDD_feature_sum"), atol=1e-2, rtol=0)
    for pair in (discriminator(images[:2])[1], discriminator(images, groups=2)[1][:2]):
        torch.testing.assert_close(thinned(pair, 100), golden("net_KEDD_logits_first2"), **CLOSE)
    assert not torch.allclose(discriminator(images)[1][:2], discriminator(images[:2])[1], atol=1e-3)


def test_an_image_alone_is_like_nothing_and_that_takes_no_comparison():
    """What groups of one leave out is 0 to the bit, and so is its gradient."""
    discriminator = MinibatchDiscriminator(PlainGanConfig(resolution=32, width=4, classes=5))
    images = torch.rand(3, 3, 32, 32)
    found = []
    for ask in (lambda x: discriminator(x, groups=1)[1], lambda x: torch.cat([discriminator(i[None])[1] for i in x])):
        pixels = images.clone().requires_grad_(True)
        logits = ask(pixels)
        logits.logsumexp(1).sum().backward()
        found.append((logits.detach(), pixels.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert torch.equal(discriminator.mbd1(discriminator(images[:1])[0]), torch.zeros(1, 4))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"resolution": 224}, "plain gan: resolution: expected 32 or 64, got 224"),
        ({"width": 0}, "plain gan: width"),
        ({"z_dim": 0}, "plain gan: z_dim"),
        ({"classes": -1}, "plain gan: classes"),
    ],
)
def test_what_no_network_can_be_built_from_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        PlainGanConfig(**values)
