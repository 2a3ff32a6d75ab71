"""No GPU needed: on a device that is not the CPU, no tensor of ours is made on the CPU and mixed with others.

FakeTensor carries shapes and devices and computes nothing, and an operation on tensors of two devices raises. The
device is "meta" and not "cuda", since the backward pass asks for a real card on the latter. A tensor without
dimensions, or one that is an index, may lie on the CPU: torch allows it on a card too.

What reads values on its way is looked at by tests/tasks/test_made_elsewhere.py, which computes: every stage, trainings
under every defense among them.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from smoothsweep.core.attacks.optimisation.losses import ATTACK_LOSSES, attack_loss
from smoothsweep.core.defenses.base import LabelSmoothing, SmoothedLoss, Step
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.kinds import NETWORKS
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2Discriminator
from tests.core.priors.examples import network_of
from tests.dear import but_dear

ELSEWHERE = "meta"
ROWS, CLASSES = 8, 4
SMALL = StyleGAN2Config(resolution=8, z_dim=6, w_dim=5, mapping_layers=2, channel_base=32, channel_max=4)
ARCHITECTURES = {"resnet_small": 32, "vgg_small": 32, "inception_v3": 299, "vgg16_bn": 64}
"""Ours, one with a second output, one of the low-resolution attacks; most others are torchvision's alone."""


@pytest.fixture
def elsewhere():
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield torch.device(ELSEWHERE)


def draw():
    return torch.Generator().manual_seed(0)


def test_a_tensor_that_is_made_without_a_device_is_found(elsewhere):
    images = torch.rand(2, 3, device=elsewhere)
    with pytest.raises(RuntimeError, match="two different devices"):
        images + torch.zeros(2, 3)
    assert (images + torch.zeros(2, 3, device=images.device)).device.type == ELSEWHERE


@pytest.mark.parametrize("name", NETWORKS)
def test_priors(name, request):
    prior = network_of(name)
    z = torch.from_numpy(prior.sample_z(3, 0))
    prior.to(ELSEWHERE)
    device = request.getfixturevalue("elsewhere")
    w = prior.map(torch.zeros_like(z, device=device), psi=0.5).detach().requires_grad_(True)
    images = prior.synthesize(w)
    (gradient,) = torch.autograd.grad(images.sum(), w)
    assert images.device.type == gradient.device.type == ELSEWHERE


def test_the_discriminator(request):
    discriminator = StyleGAN2Discriminator(SMALL).to(ELSEWHERE)
    device = request.getfixturevalue("elsewhere")
    assert discriminator(torch.rand(4, 3, 8, 8, device=device)).device.type == ELSEWHERE


@pytest.mark.parametrize("name", but_dear(ARCHITECTURES, ["inception_v3"]))
def test_classifiers_trained_and_asked(name, request):
    model, side = build_classifier(name, CLASSES, protocol="clean").to(ELSEWHERE), ARCHITECTURES[name]
    device = request.getfixturevalue("elsewhere")
    images, labels = torch.rand(2, 3, side, side, device=device), torch.zeros(2, dtype=torch.long, device=device)
    step = Step(
        model=model,
        forward=model.train(),
        images=images,
        labels=labels,
        criterion=SmoothedLoss(alpha=-0.5),
        epoch=0,
        epochs=2,
        generator=draw(),
        batch_size=2,
    )
    LabelSmoothing().loss(step).loss.backward()
    assert model.eval()(images).device.type == ELSEWHERE


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("name", sorted(ATTACK_LOSSES))
def test_objectives_of_attacks(name, protocol, elsewhere):
    logits = torch.rand(ROWS, CLASSES, device=elsewhere, requires_grad=True)
    losses = attack_loss(name, protocol)(logits, torch.zeros(ROWS, dtype=torch.long, device=elsewhere))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert losses.shape == (ROWS,) and losses.device.type == gradient.device.type == ELSEWHERE
