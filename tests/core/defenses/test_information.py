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
    KERNELS,
    coco,
    coco_operator,
    gaussian_kernel,
    hsic,
    hsic_operator,
    identity_batches,
    imq_kernel,
    linear_kernel,
    shuffled_batches,
    squared_distances,
)
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import TrainingRecipe

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


def by_hand(model, images, labels, layers, measure):
    """Sums over the layers of the dependence on images and labels, from outputs taken one by one."""
    operator, value = {"hsic": (hsic_operator, hsic), "coco": (coco_operator, coco)}[measure]
    of_image = operator(gaussian_kernel(images))
    of_label = operator(linear_kernel(F.one_hot(labels, model.num_classes).double()))
    on_input = on_label = 0
    for name in layers:
        outputs = []
        hook = model.backbone.get_submodule(name).register_forward_hook(lambda *a, o=outputs: o.append(a[2].clone()))
        model(images)
        hook.remove()
        hidden = operator(gaussian_kernel(outputs[0]))
        on_input, on_label = on_input + value(hidden, of_image), on_label + value(hidden, of_label)
    return on_input, on_label


def gradient(loss, model):
    parameters = list(model.backbone.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, materialize_grads=True)])


@pytest.mark.parametrize("measure", ["hsic", "coco"])
@pytest.mark.parametrize(
    ("architecture", "layers"),
    [("resnet_small", ("blocks.0", "blocks.1")), ("vgg_small", ("layers.4", "layers.7", "features.layer"))],
)
def test_loss_and_gradient_are_those_of_the_measure_asked_for(architecture, layers, measure, tools):
    defense = Bido(lambda_input=0.3, lambda_label=2.0, measure=measure)
    model = tools.prepared(defense, architecture)
    images, labels = tools.colours(per_class=4)
    result = tools.take_step(defense, model, images, labels)
    on_input, on_label = by_hand(model, images, labels, layers, measure)
    torch.testing.assert_close(result.facts["input_dependence"], on_input.detach(), rtol=1e-4, atol=0)
    torch.testing.assert_close(result.facts["label_dependence"], on_label.detach(), rtol=1e-4, atol=0)
    cross_entropy, penalty = F.cross_entropy(result.logits, labels), 0.3 * on_input - 2.0 * on_label
    torch.testing.assert_close(result.loss, cross_entropy + penalty.float())
    got, wanted = gradient(result.loss - cross_entropy, model), gradient(penalty, model)
    assert wanted.norm() > 0 and (got - wanted).norm() < 0.01 * wanted.norm()
    another = Bido(lambda_input=0.3, lambda_label=2.0, measure={"hsic": "coco", "coco": "hsic"}[measure])
    result = tools.take_step(another, model, images, labels)
    other = gradient(result.loss - F.cross_entropy(result.logits, labels), model)
    assert (other - wanted).norm() > 0.5 * wanted.norm()


def test_facts_name_the_distinct_labels_and_the_label_term_saturates_below_them(tools):
    defense = Bido(lambda_input=0.05, lambda_label=0.5)
    model = tools.prepared(defense)
    images, labels = tools.colours(per_class=4)
    facts = tools.take_step(defense, model, images, labels).facts
    assert facts["distinct_labels"].item() == 4
    assert facts["label_dependence"].item() == pytest.approx(2 * 3, rel=0.05)  # two layers


def test_layers_by_name(tools):
    images, labels = tools.colours(per_class=4)
    one = Bido(lambda_input=1, lambda_label=0, layers=("blocks.1",))
    model = tools.prepared(one)
    facts = tools.take_step(one, model, images, labels).facts
    expected, _ = by_hand(model, images, labels, ("blocks.1",), "hsic")
    torch.testing.assert_close(facts["input_dependence"], expected.detach(), rtol=1e-4, atol=0)
    with pytest.raises(InputError, match=r"layers of vgg_small \(layers\.0, .*features\.layer\), got 'blocks\.1'"):
        one.check("vgg_small")
    with pytest.raises(InputError, match="got 'blocks"):
        tools.prepared(one, "resnet18")


def test_batches_of_both_kinds(tools):
    labels = torch.arange(20).repeat(8)
    identities = Bido(lambda_input=1, lambda_label=1)
    batches = identities.sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 8 for batch in batches)
    pairs = Bido(lambda_input=1, lambda_label=1, images_per_class=2).sampler(labels, 32, tools.generator())
    assert all(len(labels[batch].unique()) == 16 for batch in pairs)
    shuffled = Bido(lambda_input=1, lambda_label=1, batches="random").sampler(labels, 32, tools.generator())
    assert len(shuffled) == 5 and max(len(labels[batch].unique()) for batch in shuffled) > 12
    with pytest.raises(InputError, match=r"defense bido: expected a batch_size of two or more .* \(4\), got 30"):
        identities.adjust_recipe(TrainingRecipe(batch_size=30))


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


def test_kernels_by_hand():
    assert gaussian_kernel(Z)[0, 1].item() == pytest.approx(np.exp(-2 / (50 * 2)))
    assert imq_kernel(Z)[0, 1].item() == pytest.approx(1 / np.sqrt(3))
    same_class = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert linear_kernel(Y).tolist() == same_class
    assert all(kernel(Z).dtype == torch.float64 for kernel in KERNELS.values())


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
