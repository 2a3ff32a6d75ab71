import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.information import BottleneckHead, Mid, gaussian_kl
from smoothsweep.core.errors import InputError

FEATURES = torch.randn(64, 10, generator=torch.Generator().manual_seed(5))


def head(k=6, classes=3, spread=0.0):
    """A bottleneck in evaluation mode whose sigma is about softplus(spread - 5)."""
    layer = BottleneckHead(10, k, classes, generator=torch.Generator().manual_seed(0)).eval()
    layer.statistics.bias.data[k:] = spread
    return layer.requires_grad_(False)


def test_divergence_of_the_reference_vector():
    mu, raw = torch.tensor([[0.5, -1.0]]), torch.tensor([[5.0, 6.0]])
    assert gaussian_kl(mu, raw).item() == pytest.approx(0.821554, abs=1e-6)
    assert F.softplus(raw - 5)[0].tolist() == pytest.approx([0.693147, 1.313262], abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(mu=st.floats(-50, 50), raw=st.floats(-8, 60))
def test_divergence_is_that_of_torch(mu, raw):
    mu, raw = torch.tensor([[mu]], dtype=torch.float64), torch.tensor([[raw]], dtype=torch.float64)
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mu, F.softplus(raw - 5)), normal(0.0, 1.0))
    assert gaussian_kl(mu, raw).item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-9)
    assert gaussian_kl(mu, raw).item() >= -1e-12


@pytest.mark.parametrize("raw", [-1e6, -1e4, -200.0, -98.0, -10.0, 0.0, 5.0, 200.0, 1e4])
def test_divergence_and_its_gradient_are_finite_at_extreme_scales(raw):
    mu, raw = torch.tensor([[0.3]]), torch.tensor([[raw]], requires_grad=True)
    value = gaussian_kl(mu, raw)
    value.backward()
    assert value.isfinite().all() and raw.grad.isfinite().all()
    if raw.item() < 0:
        assert raw.grad.item() == pytest.approx(-1, abs=0.01)  # sigma is pushed up, as log sigma = raw - 5


def test_bottleneck_computes_mu_plus_sigma_times_noise():
    layer = head(spread=5.0)
    layer.seed_noise(3)
    logits = layer(FEATURES)
    mu, raw = layer.statistics(FEATURES).chunk(2, dim=1)
    noise = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))
    expected = (mu + F.softplus(raw - 5) * noise) @ layer.weight.T + layer.bias
    torch.testing.assert_close(logits, expected)


def test_readouts():
    layer = head(spread=5.0)
    noisy, second = layer(FEATURES), layer(FEATURES)
    assert not torch.allclose(noisy, second)  # noise stays on at test time, as published
    layer.seed_noise(0)
    assert torch.equal(layer(FEATURES), noisy)
    layer.read("mean")
    mean = layer(FEATURES)
    mu, _ = layer.statistics(FEATURES).chunk(2, dim=1)
    torch.testing.assert_close(mean, mu @ layer.weight.T + layer.bias)
    assert torch.equal(layer(FEATURES), mean)
    errors = []
    for draws in (1, 16, 256, 4096):
        layer.read("expectation", draws=draws, seed=7)
        first = layer(FEATURES)
        errors.append((first - mean).square().mean().sqrt().item())
        layer.read("expectation", draws=draws, seed=7)
        assert torch.equal(layer(FEATURES), first)
    assert errors == pytest.approx([errors[0] / 4**i for i in range(4)], rel=1e-2)  # 1 / sqrt(draws)


def test_an_evaluation_does_not_depend_on_earlier_ones_nor_on_training(tools):
    model = tools.prepared(Mid(beta=0.1))
    images, _ = tools.colours(per_class=1)
    state = torch.get_rng_state()
    first = model.eval()(images)
    assert torch.equal(torch.get_rng_state(), state)  # its noise is its own
    model(images)
    assert torch.equal(model.eval()(images), first)
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = model.head(model.embed(images))
        torch.manual_seed(1)
        assert torch.equal(model.head(model.embed(images)), one)  # seeded by the training loop
        assert not torch.equal(model.head(model.embed(images)), one)


def test_wrong_readouts_are_refused(tools):
    defense = Mid(beta=0.1)
    with pytest.raises(InputError, match="readout: expected one of noisy, mean, expectation, got 'mu'"):
        defense.read(tools.prepared(defense), "mu", protocol="paper", seed=0)
    with pytest.raises(InputError, match="without a bottleneck"):
        defense.read(tools.prepared(Defense()), "mean", protocol="paper", seed=0)


@pytest.mark.parametrize(("architecture", "features"), [("resnet_small", 128), ("vgg_small", 160), ("resnet18", 512)])
def test_place_and_size(architecture, features, tools):
    model = tools.prepared(Mid(beta=0.1), architecture)
    assert model.head.weight.shape == (4, features // 2) and model.head.statistics.weight.shape == (features, features)
    assert model.feature_dim == features and model.num_classes == 4
    has_norm = any(isinstance(module, nn.BatchNorm1d) for module in model.modules())
    assert has_norm == (architecture == "resnet_small")  # in the VGG the bottleneck takes its place
    assert tools.prepared(Mid(beta=0.1, k=7), architecture).head.k == 7


def test_loss_is_criterion_plus_beta_times_divergence(tools):
    images, labels = tools.colours(per_class=2)
    for beta in (0.0, 0.01):
        model = tools.prepared(Mid(beta=beta))
        result = tools.take_step(Mid(beta=beta), model, images, labels, alpha=0.1)
        criterion = F.cross_entropy(result.logits, labels, label_smoothing=0.1)
        torch.testing.assert_close(result.loss, criterion + beta * result.facts["kl"])
    mu, raw = model.head.statistics(model.embed(images)).chunk(2, dim=1)
    torch.testing.assert_close(result.facts["kl"], gaussian_kl(mu, raw).mean().detach(), rtol=1e-3, atol=0)


def test_beta_warmup():
    defense = Mid(beta=0.8, beta_warmup=0.4)
    assert [defense.beta_at(epoch, 10) for epoch in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])
    assert [Mid(beta=0.8).beta_at(epoch, 10) for epoch in (0, 9)] == [0.8, 0.8]
    assert Mid(beta=0.8, beta_warmup=1).beta_at(9, 10) == 0.8
