"""MID's bottleneck, BiDO, the measures of dependence and the batches it needs."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.parallel import DistributedDataParallel

from smoothsweep.core.defenses.information import Bido, Mid
from smoothsweep.core.defenses.layers import BottleneckHead, gaussian_kl
from smoothsweep.core.defenses.operations import (
    coco,
    coco_operator,
    gaussian_kernel,
    hsic,
    hsic_operator,
    identity_batches,
    linear_kernel,
    shuffled_batches,
    squared_distances,
)


def head(k=6, classes=3, spread=0.0):
    """A bottleneck in evaluation mode whose sigma is about softplus(spread - 5)."""
    layer = BottleneckHead(10, k, classes, generator=torch.Generator().manual_seed(0)).eval()
    layer.statistics.bias.data[k:] = spread
    return layer.requires_grad_(False)


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


def gradient(loss, model):
    parameters = list(model.backbone.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, materialize_grads=True)])


def test_batches_of_both_kinds(tools):
    labels = torch.arange(20).repeat(8)
    identities = Bido(lambda_input=1, lambda_label=1)
    batches = identities.sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 8 for batch in batches)
    pairs = Bido(lambda_input=1, lambda_label=1, images_per_class=2).sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 16 for batch in pairs)
    shuffled = Bido(lambda_input=1, lambda_label=1, batches="random").sampler(labels, 32, tools.generator())
    assert len(shuffled) == 5 and max(len(labels[batch].unique()) for batch in shuffled) > 12


def test_hidden_layers_are_seen_through_the_data_parallel_wrapper(tmp_path, tools):
    """One call through it, so that gradients are exchanged; here among one process."""
    defense = Bido(lambda_input=0.05, lambda_label=0.5)
    model = tools.prepared(defense)
    images, labels = tools.colours(per_class=4)
    alone = gradient(tools.take_step(defense, model, images, labels).loss, model)
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model)
        tools.take_step(defense, model, images, labels, forward=wrapped).loss.backward()
    finally:
        torch.distributed.destroy_process_group()
    together = torch.cat([p.grad.flatten() for p in model.backbone.parameters()])
    assert (together - alone).norm() < 1e-3 * alone.norm()


# Computed once with the official functions (float64); 4 samples, labels 0, 0, 1, 2.
Z = torch.tensor([[1, 0], [0, 1], [2, 2], [-1, 1]], dtype=torch.float64)
X = (torch.arange(12, dtype=torch.float64) / 10).view(4, 3)
Y = F.one_hot(torch.tensor([0, 0, 1, 2]), 3).double()
seeds = st.integers(0, 10_000)


def measure(kind, a, b, **options):
    operator, value = (hsic_operator, hsic) if kind == "hsic" else (coco_operator, coco)
    return value(operator(a), operator(b), **options).item()


@pytest.mark.parametrize(
    ("kind", "other", "options", "expected"),
    [
        ("hsic", gaussian_kernel(X), {}, 1.463254),
        ("hsic", linear_kernel(Y), {}, 1.969786),
        ("hsic", gaussian_kernel(Y), {}, 1.964896),
        ("coco", gaussian_kernel(X), {}, 0.006597),
        ("coco", gaussian_kernel(X), {"norm": "spectral"}, 0.006597),
        ("coco", linear_kernel(Y), {}, 0.081740),
        ("coco", linear_kernel(Y), {"norm": "spectral"}, 0.079246),
    ],
)
def test_values_of_the_official_functions(kind, other, options, expected):
    assert measure(kind, gaussian_kernel(Z), other, **options) == pytest.approx(expected, abs=6e-7)


def by_the_book(k, other):
    """Normalised HSIC with inverses, in numpy."""
    m = len(k)
    center = np.eye(m) - 1 / m
    parts = []
    for kernel in (k.numpy(), other.numpy()):
        a = kernel @ center
        parts.append(a @ np.linalg.inv(a + 1e-5 * m * np.eye(m)))
    return np.trace(parts[0] @ parts[1])


@settings(deadline=None, max_examples=20)
@given(seed=seeds, m=st.integers(3, 24), d=st.integers(1, 40))
def test_solving_gives_what_inverting_gives(seed, m, d):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(m, d, generator=generator, dtype=torch.float64)
    x = torch.randn(m, 7, generator=generator, dtype=torch.float64)
    k, other = gaussian_kernel(z), gaussian_kernel(x)
    assert measure("hsic", k, other) == pytest.approx(by_the_book(k, other), rel=1e-6)
    assert -1e-6 <= measure("hsic", k, other) <= m - 1 + 1e-6


@settings(deadline=None, max_examples=20)
@given(seed=seeds, m=st.integers(3, 16))
def test_measures_ignore_the_order_of_the_images_and_are_symmetric(seed, m):
    generator = torch.Generator().manual_seed(seed)
    z, x = (torch.randn(m, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    order = torch.randperm(m, generator=generator)
    for kind in ("hsic", "coco"):
        value = measure(kind, gaussian_kernel(z), gaussian_kernel(x))
        assert measure(kind, gaussian_kernel(z[order]), gaussian_kernel(x[order])) == pytest.approx(value, rel=1e-5)
        assert measure(kind, gaussian_kernel(x), gaussian_kernel(z)) == pytest.approx(value, rel=1e-5)


def test_distances_survive_single_precision_and_a_large_common_part():
    """Features after a ReLU share a large mean; without centring its square would swallow their differences."""
    generator = torch.Generator().manual_seed(0)
    x = 30 + torch.randn(16, 5000, generator=generator)
    exact = torch.cdist(x.double(), x.double()).square()
    torch.testing.assert_close(squared_distances(x), exact, rtol=2e-6, atol=1e-3)
    assert squared_distances(x).diagonal().abs().max() == 0
    images = torch.randn(4, 3, 8, 8, generator=generator).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(squared_distances(images), squared_distances(images.flatten(1)), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["hsic", "coco"])
def test_gradients(kind):
    operator, value = (hsic_operator, hsic) if kind == "hsic" else (coco_operator, coco)
    fixed = operator(gaussian_kernel(X))
    z = Z.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: value(operator(gaussian_kernel(z)), fixed), (z,), atol=1e-5)


def test_coco_of_a_constant_layer_has_no_gradient_instead_of_nan():
    z = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    value = coco(coco_operator(gaussian_kernel(z)), coco_operator(gaussian_kernel(X)))
    value.backward()
    assert value.item() < 1e-6 and torch.equal(z.grad, torch.zeros(4, 2, dtype=torch.float64))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(
    counts=st.lists(st.integers(1, 15), min_size=4, max_size=12), per_class=st.integers(2, 5), seed=st.integers(0, 99)
)
def test_every_batch_has_as_many_classes_and_images_of_each_as_promised(counts, per_class, seed):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=generator(seed))]
    batches = identity_batches(labels, 4 * per_class, per_class, generator(seed))
    assert batches
    seen = torch.cat(batches)
    for batch in batches:
        assert labels[batch].view(4, per_class).unique(dim=1).shape == (4, 1)
        assert len(labels[batch].unique()) == 4
    for label, count in enumerate(counts):
        used = seen[labels[seen] == label]
        if count >= per_class:
            assert len(used.unique()) == len(used)  # nothing twice in an epoch
        else:
            assert len(used) <= per_class and len(used.unique()) in (0, count)


def test_an_epoch_of_equal_classes_leaves_nothing_out():
    labels = torch.arange(20).repeat(8)
    batches = identity_batches(labels, 64, 4, generator(1))
    assert len(batches) == 2 and len(torch.cat(batches).unique()) == 128
    even = identity_batches(torch.arange(16).repeat(8), 32, 4, generator(1))
    assert torch.equal(torch.cat(even).sort().values, torch.arange(128))


def test_shuffled_batches_are_whole():
    batches = shuffled_batches(35, 16, generator())
    assert [len(batch) for batch in batches] == [16, 16] and len(torch.cat(batches).unique()) == 32
    assert torch.equal(shuffled_batches(5, 16, generator())[0].sort().values, torch.arange(5))
