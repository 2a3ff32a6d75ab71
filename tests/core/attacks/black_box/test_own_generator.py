"""The black boxes in GMI's generator: a part decodes their latents as a prior would, number by number."""

from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.attacks.black_box.brep_starts import make_starts
from smoothsweep.core.attacks.gan.config import GanTraining, PlainGanConfig
from smoothsweep.core.attacks.gan.networks import PlainGenerator
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.base import Prior

SMALL = {
    "rlb_mi": {"episodes": 20, "minibatch": 12, "hidden": 8, "selected": 2},
    "brep_mi": {"selected": 2, "starts": {"batch": 16, "max_batches": 2}, "probes": 8, "patience": 3, "max_passes": 5},
}
GAN = {"width": 2, "z_dim": 12, "epochs": 3}


@pytest.fixture(scope="module")
def generator():
    torch.manual_seed(0)
    return PlainGenerator(PlainGanConfig(resolution=32, z_dim=12, width=2)).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def target():
    return build_classifier("resnet_small", 3, protocol="clean", seed=1).eval().requires_grad_(False)


def test_the_generator_is_a_prior_whose_w_is_z(generator):
    assert isinstance(generator, Prior)
    z = torch.from_numpy(generator.sample_z(3, 5))
    w = generator.map(z)
    assert (generator.z_dim, generator.w_dim, generator.num_ws) == (12, 12, 1) and w.shape == (3, 1, 12)
    assert torch.equal(w[:, 0], z.float()) and torch.equal(generator.map(z, psi=0.5), 0.5 * w)
    assert torch.equal(generator.map(z, psi=0.5, cutoff=0), w)


@pytest.mark.parametrize("kind", SMALL)
def test_the_part_decodes_as_the_same_network_as_a_prior_does(kind, generator, target):
    found = []
    for own in ({}, {"generator": "general_gan", "gan": GAN}):
        attack = make_attack(kind, **SMALL[kind], **own)
        view = view_of(
            target, attack.access, num_classes=3, image_size=32, execution=Execution(ExecutionConfig(), "cpu")
        )
        networks = {"general_gan": {"generator": generator}} if own else {}
        inputs = AttackInputs(protocol="paper", prior=None if own else generator, networks=networks)
        parts = {}
        if attack.parts and attack.parts[-1].name == "starts":
            quiet = SimpleNamespace(progress=lambda fraction, text: None)
            parts = {"starts": make_starts(attack.parts[-1].settings, inputs, view, quiet).tensors}
        inputs = AttackInputs(protocol="paper", prior=inputs.prior, networks=networks, parts=parts)
        found.append(attack.invert(view, inputs, 1, seed=7))
    assert torch.equal(found[0].w, found[1].w) and found[1].w.shape == (2, 1, 12)


@pytest.mark.parametrize("kind", SMALL)
def test_what_cannot_be_is_one_line(kind):
    wide = GanTraining(width=8)
    with pytest.raises(InputError, match=r"^attack\.gan: expected no value with generator prior"):
        make_attack(kind, gan=wide)
    with pytest.raises(InputError, match=r"^attack\.generator: expected one of prior, general_gan, got 'gan'"):
        make_attack(kind, generator="gan")
    own = make_attack(kind, generator="general_gan")
    own.check(image_size=64, prior_kind=None, has_public=True)
    with pytest.raises(InputError, match=r"^recipe\.image_size: expected 32 or 64 pixels with generator general_gan"):
        own.check(image_size=224, prior_kind=None, has_public=True)
    with pytest.raises(InputError, match="public: expected the images that this attack learns from, got none"):
        own.check(image_size=64, prior_kind=None, has_public=False)
    with pytest.raises(InputError, match=r"^public: expected at least attack\.gan\.batch_size \(64\) images, got 63"):
        own.check_public(63)
    usual = make_attack(kind)
    usual.check(image_size=224, prior_kind="shipped", has_public=False)
    usual.check_public(1)
    with pytest.raises(InputError, match=r"^prior: expected what this attack decodes its latents with, got none"):
        usual.check(image_size=64, prior_kind=None, has_public=True)
