"""Networks of GANs: names, counts and numbers are those of the official code; official checkpoints of them, and what
parts keep of them: written and read the same, frozen, and refused in one line where the file is another's."""

import json
import math

import pytest
import torch

from smoothsweep.core.attacks.gan_networks import (
    ConditionalGenerator,
    Critic,
    MinibatchDiscriminator,
    PlainGenerator,
    ProjectionDiscriminator,
    official_networks,
    with_class,
)
from smoothsweep.core.attacks.kept_networks import PART_NETWORKS, load_network, network_names, save_network
from smoothsweep.core.attacks.training_settings import NETWORKS, ConditionalConfig, PlainGanConfig
from smoothsweep.core.errors import InputError
from tests import plg
from tests.lowres import digest_of, fill, golden, images64, kept_pixels, networks, normal, s, thinned
from tests.official_gans import networks_of, official_file, official_files

CLOSE = {"atol": 5e-5, "rtol": 0}
OFFICIAL = {"G64": (PlainGenerator, 0), "DGWGAN": (Critic, 0), "KEDD": (MinibatchDiscriminator, 1000)}
TINY = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2)
FULL, SMALL = ConditionalConfig(classes=1000), ConditionalConfig(classes=7, z_dim=16, width=4)


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


def test_plgs_number_of_parameters_is_the_official_one():
    with torch.device("meta"):
        assert sum(p.numel() for p in ConditionalGenerator(FULL).parameters()) == 17_973_379
        assert sum(p.numel() for p in ProjectionDiscriminator(FULL).parameters()) == 11_165_441


def test_a_narrow_pair_has_the_official_tensors_in_the_official_shapes():
    for which, network in (("G", ConditionalGenerator(SMALL)), ("D", ProjectionDiscriminator(SMALL))):
        ours = {plg.official(name, which): tuple(value.shape) for name, value in network.state_dict().items()}
        assert ours == plg.shapes(f"plg_gan_{which}_shapes")


def test_plgs_generator_gives_the_official_images_and_gradients():
    network = plg.fill(ConditionalGenerator(FULL), "PLGG", "G", 1.0).eval()
    z, labels = normal("net_z128b", (4, 128)).requires_grad_(), plg.golden("net_PLGG_y")
    images = network(z, labels)
    torch.testing.assert_close(kept_pixels(images), plg.golden("net_PLGG_eval"), rtol=0, atol=5e-5)
    (gradient,) = torch.autograd.grad((images * s("net_PLGG_w", (4, 3, 64, 64))).sum(), z)
    torch.testing.assert_close(gradient, plg.golden("net_PLGG_eval_grad_z"), rtol=0, atol=5e-5)
    torch.testing.assert_close(kept_pixels(network.train()(z, labels)), plg.golden("net_PLGG_train"), rtol=0, atol=5e-5)


def test_the_discriminator_moves_its_spectral_norm_once_a_pass():
    network = plg.fill(ProjectionDiscriminator(FULL), "PLGD", "D", 1.0).train()
    images, labels = images64(), plg.golden("net_PLGG_y")
    for name in ("train_1", "train_2"):
        torch.testing.assert_close(network(images, labels), plg.golden(f"net_PLGD_{name}"), rtol=0, atol=1e-5)
    moved = torch.cat([network.linear.weight_u, network.embed.weight_u[:15]])
    torch.testing.assert_close(moved, plg.golden("net_PLGD_u_l6_ly_head"), rtol=0, atol=1e-5)
    torch.testing.assert_close(network.eval()(images, labels), plg.golden("net_PLGD_eval_after"), rtol=0, atol=1e-5)
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
        network = plg.fill(
            ConditionalGenerator(ConditionalConfig(classes=7, z_dim=16, width=4, output=output)), "PLGGs", "G", 1.4
        ).eval()
        z = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
        made = network(z, torch.full((3,), 5))
        expected = made if output == "signed" else 2 * made - 1
        torch.testing.assert_close(network.synthesize(with_class(z, 5)), expected, rtol=0, atol=1e-4)
        assert not torch.allclose(network.synthesize(with_class(z, 4)), expected)


@pytest.mark.parametrize(
    ("config", "wrong", "message"),
    [
        (PlainGanConfig, {"resolution": 224}, "plain gan: resolution: expected 32 or 64, got 224"),
        (PlainGanConfig, {"width": 0}, "plain gan: width"),
        (PlainGanConfig, {"z_dim": 0}, "plain gan: z_dim"),
        (PlainGanConfig, {"classes": -1}, "plain gan: classes"),
        (ConditionalConfig, {"resolution": 224}, "resolution: expected 16, 32 or 64, got 224"),
        (ConditionalConfig, {"width": 0}, "width"),
        (ConditionalConfig, {"classes": 0}, "classes"),
        (ConditionalConfig, {"z_dim": 0}, "z_dim"),
        (ConditionalConfig, {"output": "bytes"}, "output: expected one of signed"),
    ],
)
def test_what_no_network_can_be_built_from_is_refused(config, wrong, message):
    with pytest.raises(InputError, match=message):
        config(**{"classes": 3, **wrong})


def brought(part, files):
    return official_networks(part, files["generator"], files.get("discriminator"))


@pytest.mark.usefixtures("quick_programs")
@pytest.mark.parametrize("part", list(NETWORKS))
@pytest.mark.parametrize("size", [{}, {"resolution": 64, "width": 1, "z_dim": 7}])
def test_the_networks_are_the_official_ones_whatever_their_size(part, size, tmp_path):
    wanted, found = networks_of(part, **size), brought(part, official_files(part, tmp_path, **size))
    assert found.keys() == wanted.keys() == NETWORKS[part].keys()
    for name, network in found.items():
        kind, config = NETWORKS[part][name]
        assert type(network) is PART_NETWORKS[kind].load() and PART_NETWORKS[kind].config is config
        assert network.config == wanted[name].config and not network.training
        assert not any(parameter.requires_grad for parameter in network.parameters())
        own = wanted[name].state_dict()
        assert all(torch.equal(own[key], value) for key, value in network.state_dict().items())


def judged(part="general_gan", **changes):
    """A change of the generator's file, or of the discriminator's."""
    return lambda folder: (
        official_files(part, folder)
        | {
            name: official_file(networks_of(part)[name], folder / "changed.tar", **change)
            for name, change in changes.items()
        }
    )


@pytest.mark.usefixtures("quick_programs")
@pytest.mark.parametrize(
    ("part", "files", "message"),
    [
        (
            "general_gan",
            judged(generator={"prefix": "net.module."}),
            r"expected a tensor l1\.0\.weight of 2 axes, there is none; the first is net\.module\.l1\.0\.weight",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s.pop("module.l2_5.0.1.weight")}),
            r"as generator of a general_gan: 1 missing keys, first l2_5\.0\.1\.weight",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s.update(extra=torch.zeros(1))}),
            "1 unknown keys, first extra",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s["module.l1.0.weight"].fill_(float("nan"))}),
            r"l1\.0\.weight: expected finite numbers",
        ),
        (
            "specific_gan",
            lambda folder: official_files("general_gan", folder),
            r"as discriminator of a specific_gan: expected a tensor fc_layer\.weight of 2 axes",
        ),
        (
            "general_gan",
            lambda folder: (
                official_files("general_gan", folder, width=3)
                | {"generator": official_files("specific_gan", folder)["generator"]}
            ),
            r"ls\.0\.weight: expected shape \(2, 3",
        ),
        (
            "general_gan",
            lambda folder: {"generator": official_files("general_gan", folder)["generator"]},
            "--discriminator: expected the checkpoint of the discriminator of a general_gan, got none",
        ),
        (
            "plg_gan",
            lambda folder: official_files("general_gan", folder),
            "--discriminator: expected none: a plg_gan is used without it",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(part, files, message, tmp_path):
    with pytest.raises(InputError, match=message) as refusal:
        brought(part, files(tmp_path))
    assert "\n" not in str(refusal.value)


@pytest.fixture
def kept(tmp_path):
    network = ConditionalGenerator(TINY).eval()
    network.norm.running_mean.normal_(generator=torch.Generator().manual_seed(0))
    save_network(network, tmp_path, "generator")
    return network, tmp_path


def test_a_network_is_read_as_it_was_written(kept):
    network, folder = kept
    found = load_network(folder, "generator")
    assert type(found) is ConditionalGenerator and found.config == TINY and network_names(folder) == ["generator"]
    assert not found.training and not any(parameter.requires_grad for parameter in found.parameters())
    w = with_class(torch.randn(2, 4, generator=torch.Generator().manual_seed(1)), 2)
    assert torch.equal(found.synthesize(w), network.synthesize(w))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pickle"}, "kind: expected one of conditional_generator"),
        ({"config": {}}, "config: expected the keys classes"),
        ({"config": {**vars(TINY), "classes": 4}}, "expected shape"),
        ({"config": {**vars(TINY), "resolution": 224}}, "resolution: expected 16, 32 or 64, got 224"),
    ],
)
def test_a_card_that_does_not_fit_is_one_line(change, message, kept):
    card = kept[1] / "generator.network.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), **change}))
    with pytest.raises(InputError, match=message) as refusal:
        load_network(kept[1], "generator")
    assert "\n" not in str(refusal.value) and str(kept[1]) in str(refusal.value)


def test_a_network_of_no_kind_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="expected one of conditional_generator"):
        save_network(torch.nn.Linear(2, 2), tmp_path, "generator")
    assert list(tmp_path.iterdir()) == []
