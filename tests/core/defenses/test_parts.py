"""What defenses are made of: losses, boxes, heads, skips, decoys, altered answers, measures of dependence, batches."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.defenses.base import Defense, smoothed_targets
from smoothsweep.core.defenses.decoys import AtAt, Ssd
from smoothsweep.core.defenses.information import Bido, Mid
from smoothsweep.core.defenses.layers import gaussian_kl, move_towards
from smoothsweep.core.defenses.operations import (
    box_mask,
    coco,
    coco_operator,
    focal_losses,
    gaussian_kernel,
    hsic,
    hsic_operator,
    identity_batches,
    linear_kernel,
    shuffled_batches,
    squared_distances,
)
from smoothsweep.core.defenses.regularisers import Loft, RandomErasing
from smoothsweep.core.defenses.structure import SkipRemoval
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("alpha", [0.1, 0.0, -0.05])
def test_focal_loss_has_a_gradient_where_the_network_is_certain(gamma, alpha):
    logits = torch.tensor([[0.0, 0.0, 200.0], [0.0, 0.0, -200.0]], requires_grad=True)
    focal_losses(logits, smoothed_targets(torch.tensor([2, 2]), 3, alpha), gamma).sum().backward()
    assert logits.grad.isfinite().all() and logits.grad[1].abs().max() > 0.1


def narrow(features, classes, rank, **settings):
    """The defense on a network whose features are its inputs, in evaluation mode."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(features, classes))
    Loft(rank=rank, **settings).prepare(model, generator=torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


def test_size_of_the_published_head():
    def of(model):
        return sum(parameter.numel() for parameter in model.parameters())

    assert of(narrow(2048, 530, 50)) == 133_576 and of(narrow(2048, 530, 50, norm=False)) == 133_576 - 2 * 2048
    assert of(nn.Linear(2048, 530)) == 1_085_970


@given(
    area=st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 0.9)).map(sorted),
    aspect=st.tuples(st.floats(0.2, 4), st.floats(0.2, 4)).map(sorted),
    seed=st.integers(0, 1000),
)
def test_boxes_lie_inside_and_have_the_area_and_shape_asked_for(area, aspect, seed):
    defense = RandomErasing(area=tuple(area), aspect=tuple(aspect))
    boxes = defense.draw_boxes(50, (200, 200), torch.Generator().manual_seed(seed))
    top, left, height, width = boxes[boxes[:, 2] > 0].T
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= 200).all() and (left + width <= 200).all()
    share = height * width / 200**2
    slack = (height + width) / 200**2  # rounding to whole pixels
    assert (share >= area[0] - slack).all() and (share <= area[1] + slack).all()
    assert ((height + 1) / (width - 0.51).clamp(min=0.1) >= aspect[0]).all()
    assert torch.equal(box_mask(boxes, (200, 200)).sum(dim=(1, 2)), boxes[:, 2] * boxes[:, 3])


def test_a_box_that_never_fits_leaves_the_image_whole():
    images = torch.rand(20, 3, 40, 40)
    defense = RandomErasing(area=(0.9, 0.9), aspect=(3.0, 3.0))
    assert torch.equal(defense.alter_batch(images, torch.arange(20), torch.Generator())[0], images)


@pytest.mark.parametrize(("architecture", "scale"), [("resnet18", 0.0), ("resnet18", 0.4), ("resnext50", 0.0)])
def test_every_block_of_a_resnets_last_stage(architecture, scale, tools):
    model = tools.prepared(SkipRemoval(scale=scale), architecture).eval()
    plain = tools.prepared(Defense(), architecture).eval()
    x = torch.rand(1, plain.backbone.layer3[-1].conv1.in_channels, 4, 4, generator=tools.generator())
    with torch.no_grad():
        for block, before in zip(model.backbone.layer4, plain.backbone.layer4, strict=True):
            out = F.relu(before.bn1(before.conv1(x)))
            out = before.bn2(before.conv2(out))
            out = before.bn3(before.conv3(F.relu(out))) if hasattr(before, "conv3") else out
            skip = x if before.downsample is None else before.downsample(x)
            expected = F.relu(out + scale * skip)
            torch.testing.assert_close(block(x), expected)
            x = expected
    assert type(model.backbone.layer3[0]) is type(plain.backbone.layer3[0])
    for name in ("layer1", "layer2", "layer3"):
        stage, untouched = getattr(model.backbone, name), getattr(plain.backbone, name)
        assert stage.state_dict().keys() == untouched.state_dict().keys()


@pytest.mark.parametrize(
    ("architecture", "skip", "cut", "width"),
    [
        ("densenet121", "facescrub", 2, 904),
        ("densenet169", "facescrub", 1, 1636),
        ("densenet121", "stanford_dogs", 4, 32),
        ("densenet121", (1.0, 1.0, 0.0, 1.0), 3, 528),
    ],
)
def test_densenets_have_the_published_widths(architecture, skip, cut, width, tools):
    """The number of features that the official networks were seen to have at their heads; all of it is trained."""
    model = tools.prepared(SkipRemoval(skip=skip), architecture)
    assert model.feature_dim == width
    chained = [isinstance(getattr(model.backbone.features, f"denseblock{i}"), torch.nn.Sequential) for i in range(1, 5)]
    assert chained == [i == cut for i in range(1, 5)]
    images = torch.rand(2, 3, 32, 32, generator=tools.generator()) * 2 - 1
    tools.take_step(SkipRemoval(skip=skip), model.train(), images, torch.tensor([0, 1])).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_the_descent_leaves_no_trace_in_the_network(tools):
    model, (images, labels) = tools.prepared(AtAt()), tools.colours(per_class=2)
    before = [buffer.clone() for buffer in model.buffers()]
    AtAt().move_images(model, images, (labels + 1) % 4, tools.generator())
    assert all(torch.equal(*pair) for pair in zip(before, model.buffers(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    tools.take_step(AtAt(), model, images, labels)
    tracked = [buffer.item() for name, buffer in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert tracked and set(tracked) == {1}


def tensor(*values):
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize(
    ("answer", "towards", "budget", "expected"),
    [
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.2, (0.4, 0.4, 0.2)),
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.5148, (0.2426, 0.5049, 0.2525)),
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.0, (0.5, 0.3, 0.2)),
        ((0.98, 0.01, 0.01), (0.9, 0.05, 0.05), 0.2, (0.9, 0.05, 0.05)),
        ((0.9, 0.06, 0.04), (0.1, 0.6, 0.3), 0.1962, (0.8019, 0.1321, 0.0660)),
        ((1.0, 0.0, 0.0), (0.0, 0.5, 0.5), 0.0, (1.0, 0.0, 0.0)),
    ],
)
def test_answers_computed_by_hand(answer, towards, budget, expected):
    found = move_towards(tensor(*answer), tensor(*towards), torch.tensor([budget], dtype=torch.float64))
    torch.testing.assert_close(found, tensor(*expected), rtol=0, atol=6e-5)


@given(st.integers(0, 10_000), st.floats(0, 2), st.integers(2, 40))
def test_answers_stay_probabilities_and_spend_the_budget(seed, budget, classes):
    draw = torch.Generator().manual_seed(seed)
    answers, towards = (torch.randn(5, classes, generator=draw, dtype=torch.float64).mul(3).softmax(1) for _ in "ab")
    found = move_towards(answers, towards, torch.full((5,), budget, dtype=torch.float64))
    distance = (answers - towards).abs().sum(1)
    torch.testing.assert_close(found.sum(1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close((found - answers).abs().sum(1), distance.clamp(max=budget), rtol=0, atol=1e-6)
    # No small exchange between two entries within the budget comes nearer: p / q is level where p left the answer.
    ratios, moved = found / towards, (found - answers).abs() > 1e-9
    for row in range(5):
        for risen in (True, False):
            own = ratios[row][moved[row] & ((found > answers)[row] == risen)]
            assert not len(own) or (own.max() - own.min()) / own.max() < 1e-6


def shielded(classes=4, **settings):
    """The defense on a network whose logits are three times its inputs, and fitted to unsure answers."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(12, classes))
    with torch.no_grad():
        model.head.weight.copy_(3 * torch.eye(classes, 12))
        model.head.bias.zero_()
    defense = Ssd(**{"eps": 1.0, **settings})
    defense.prepare(model, generator=torch.Generator())
    labels = torch.arange(classes).repeat(3)
    defense.fit(model, torch.eye(classes).mul(2).repeat(3, 1), labels)
    return model.eval().requires_grad_(False)


IMAGES = torch.rand(50, 3, 2, 2, generator=torch.Generator().manual_seed(1)).mul(2).sub(1)


def test_answers_depend_on_the_image_alone_unless_they_are_drawn_anew():
    fixed, fresh = shielded(), shielded(draws="fresh")
    whole = fixed(IMAGES)
    torch.testing.assert_close(torch.cat([fixed(part) for part in IMAGES.flip(0).split(7)]).flip(0), whole)
    first, second = fresh(IMAGES), fresh(IMAGES)
    assert not torch.equal(first.argmax(1), second.argmax(1))
    Ssd(eps=1.0, draws="fresh").seed_noise(fresh, 0)
    assert torch.equal(fresh(IMAGES), first)


def test_no_gradient_and_nothing_but_answers_leaves_the_view():
    model = shielded()
    execution = Execution(ExecutionConfig(), "cpu")
    common = {"num_classes": 4, "image_size": 2, "execution": execution}
    scores = view_of(model, "scores", **common).scores(IMAGES)
    torch.testing.assert_close(scores, model(IMAGES).softmax(1))
    plain = model.head(model.embed(IMAGES)).softmax(1)
    assert (scores - plain).abs().sum(1).mean() > 0.1 and torch.equal(scores.argmax(1), model(IMAGES).argmax(1))
    assert torch.equal(view_of(model, "labels", **common).labels(IMAGES), scores.argmax(1))
    with pytest.raises(InputError, match="target: expected access to its gradients, got a model that gives scores"):
        view_of(model, "gradients", **common)
    assert not model(IMAGES.clone().requires_grad_()).requires_grad


def test_held_out_images_are_of_every_class_and_leave_some_of_it():
    labels = torch.tensor([0] * 20 + [1] * 3 + [2] * 2)
    rows = Ssd(eps=1.0, share=0.2).hold_out(labels, torch.Generator().manual_seed(0))
    assert torch.bincount(labels[rows]).tolist() == [4, 1, 1] and len(rows.unique()) == 6
    with pytest.raises(InputError, match="ssd: share: expected to leave an image of class 1 to train on, got 1"):
        Ssd(eps=1.0).hold_out(torch.tensor([0, 0, 1]), torch.Generator())
    with pytest.raises(InputError, match="a clean image of every class held out, got none of class 3"):
        Ssd(eps=1.0).fit(shielded(), torch.zeros(3, 4), torch.tensor([0, 1, 2]))


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


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(
    counts=st.lists(st.integers(1, 15), min_size=4, max_size=12), per_class=st.integers(2, 5), seed=st.integers(0, 99)
)
def test_every_batch_has_as_many_classes_and_images_of_each_as_promised(counts, per_class, seed):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=seeded(seed))]
    batches = identity_batches(labels, 4 * per_class, per_class, seeded(seed))
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
    batches = identity_batches(labels, 64, 4, seeded(1))
    assert len(batches) == 2 and len(torch.cat(batches).unique()) == 128
    even = identity_batches(torch.arange(16).repeat(8), 32, 4, seeded(1))
    assert torch.equal(torch.cat(even).sort().values, torch.arange(128))


def test_shuffled_batches_are_whole():
    batches = shuffled_batches(35, 16, seeded())
    assert [len(batch) for batch in batches] == [16, 16] and len(torch.cat(batches).unique()) == 32
    assert torch.equal(shuffled_batches(5, 16, seeded())[0].sort().values, torch.arange(5))
