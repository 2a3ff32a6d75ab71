"""Defenses that add a term to the loss, and those that change the network."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.defenses.base import Defense, MixedLabels, smoothed_cross_entropy, smoothed_targets
from smoothsweep.core.defenses.operations import box_mask, draw_shares, entropy, focal_losses
from smoothsweep.core.defenses.regularisers import (
    PUBLISHED_COLOUR,
    ConfidencePenalty,
    Dropout,
    Focal,
    Loft,
    LogitClipping,
    Mixup,
    RandomErasing,
    WeightDecay,
)
from smoothsweep.core.defenses.structure import Freeze, SkipRemoval
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe, make_optimizer

LOGITS = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)) * 3
LABELS = torch.arange(40) % 5


def test_dropout_drops_features_under_the_head_in_training_only(tools):
    model = tools.prepared(Dropout(p=0.4))
    plain = tools.prepared(Defense())
    assert model.state_dict().keys() == plain.state_dict().keys()
    features = torch.ones(200, 128)
    torch.nn.init.eye_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kept = model.head(features)
    assert kept.unique().tolist() == pytest.approx([0, 1 / 0.6])
    assert (kept == 0).float().mean().item() == pytest.approx(0.4, abs=0.06)
    assert torch.equal(model.eval().head(features), torch.ones(200, 4))
    images, _ = tools.colours(per_class=1)
    torch.testing.assert_close(tools.prepared(Dropout(p=0.4)).eval()(images), plain.eval()(images))


def test_weight_decay_sets_the_optimizers_and_refuses_a_second_one():
    recipe = WeightDecay(value=0.02).adjust_recipe(TrainingRecipe(epochs=3))
    assert recipe.weight_decay == 0.02 and recipe.epochs == 3
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = make_optimizer([weight], WeightDecay(value=0.5).adjust_recipe(TrainingRecipe(optimizer="sgd", lr=0.1)))
    weight.grad = torch.zeros(4)
    optimizer.step()
    assert weight.tolist() == pytest.approx([1 - 0.1 * 0.5] * 4)
    with pytest.raises(InputError, match=r"defense weight_decay: expected a recipe without weight_decay, got 0\.01"):
        WeightDecay(value=0.5).adjust_recipe(TrainingRecipe(weight_decay=0.01))


@pytest.mark.parametrize("alpha", [0.2, 0.0, -0.1])
def test_focal_loss_without_focus_is_the_smoothed_loss(alpha):
    targets = smoothed_targets(LABELS, 5, alpha)
    expected = smoothed_cross_entropy(LOGITS, LABELS, alpha, reduction="none")
    torch.testing.assert_close(focal_losses(LOGITS, targets, 0.0), expected)


@settings(deadline=None, max_examples=20)
@given(gamma=st.floats(0.1, 6))
def test_focal_loss_on_hard_labels(gamma):
    p = LOGITS.softmax(1).gather(1, LABELS[:, None]).squeeze(1)
    got = focal_losses(LOGITS, F.one_hot(LABELS, 5).float(), gamma)
    torch.testing.assert_close(got, -((1 - p) ** gamma) * p.log(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("alpha", [0.1, 0.0, -0.05])
def test_focal_loss_has_a_gradient_where_the_network_is_certain(gamma, alpha):
    logits = torch.tensor([[0.0, 0.0, 200.0], [0.0, 0.0, -200.0]], requires_grad=True)
    focal_losses(logits, smoothed_targets(torch.tensor([2, 2]), 3, alpha), gamma).sum().backward()
    assert logits.grad.isfinite().all() and logits.grad[1].abs().max() > 0.1


def test_focal_gives_easy_images_less_weight_in_training(tools):
    images, labels = tools.colours(per_class=2)
    model = tools.prepared(Focal(gamma=2.0))
    result = tools.take_step(Focal(gamma=2.0), model, images, labels, alpha=-0.05)
    expected = focal_losses(result.logits, smoothed_targets(labels, 4, -0.05), 2.0).mean()
    torch.testing.assert_close(result.loss, expected)


def test_confidence_penalty_is_the_criterion_less_the_entropy(tools):
    assert entropy(torch.zeros(1, 8)).item() == pytest.approx(np.log(8))
    images, labels = tools.colours(per_class=2)
    model = tools.prepared(ConfidencePenalty(beta=0.7))
    result = tools.take_step(ConfidencePenalty(beta=0.7), model, images, labels, alpha=-0.1)
    expected = smoothed_cross_entropy(result.logits, labels, -0.1) - 0.7 * result.facts["entropy"]
    torch.testing.assert_close(result.loss, expected)


def test_mixup_blends_images_and_labels_by_the_same_share():
    images = torch.rand(40, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    mixed, labels = Mixup(alpha=1.0).alter_batch(images, LABELS, torch.Generator().manual_seed(2))
    assert isinstance(labels, MixedLabels) and torch.equal(labels.first, LABELS)
    partner = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    assert torch.equal(labels.second, LABELS[partner])
    share = labels.share[:, None, None, None]
    torch.testing.assert_close(mixed, share * images + (1 - share) * images[partner])
    assert len(labels.share.unique()) > 30  # one draw for every image


@pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
def test_mixup_shares_follow_the_beta_distribution(alpha):
    shares = draw_shares(20_000, alpha, torch.Generator().manual_seed(0))
    assert shares.min() >= 0 and shares.max() <= 1
    assert shares.mean().item() == pytest.approx(0.5, abs=0.01)
    assert shares.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.04)


def test_mixup_costs_what_the_soft_label_costs_and_makes_outputs_soft(tools):
    images, labels = tools.colours(per_class=2)
    model = tools.prepared(Mixup(alpha=1.0))
    result = tools.take_step(Mixup(alpha=1.0), model, images, labels, alpha=-0.05)
    _, mixed = Mixup(alpha=1.0).alter_batch(images, labels, tools.generator())
    one, other = (smoothed_targets(part, 4, -0.05) for part in (mixed.first, mixed.second))
    target = mixed.share[:, None] * one + (1 - mixed.share[:, None]) * other
    torch.testing.assert_close(result.loss, -(target * result.logits.log_softmax(1)).sum(1).mean())


def test_only_long_logits_are_shortened_and_no_prediction_changes(tools):
    model, plain = tools.prepared(LogitClipping(norm=1.0)).eval(), tools.prepared(Defense()).eval()
    features = torch.randn(50, 128, generator=tools.generator())
    clipped, free = model.head(features), plain.head(features)
    length = free.norm(dim=1)
    assert (length > 1).any() and (length < 1).any()
    torch.testing.assert_close(clipped.norm(dim=1), length.clamp(max=1))
    assert torch.equal(clipped[length <= 1], free[length <= 1])
    assert torch.equal(clipped.argmax(1), free.argmax(1))


def narrow(features, classes, rank, **settings):
    """The defense on a network whose features are its inputs, in evaluation mode."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(features, classes))
    Loft(rank=rank, **settings).prepare(model, generator=torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


def test_logits_of_a_hand_computed_example():
    model = narrow(2, 3, 2)
    model.neck.narrow.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    model.neck.narrow.bias.zero_()
    model.head.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, -1.0], [0.0, 3.0]]))
    model.head.bias.copy_(torch.tensor([0.0, 0.5, 0.0]))
    logits = model(torch.tensor([[0.5, -0.25]]))
    torch.testing.assert_close(logits, torch.tensor([[0.0, 1.424234, -1.386351]]), rtol=0, atol=1e-4)


def test_logits_have_the_rank_and_the_bound_that_are_claimed():
    model = narrow(40, 12, 3)
    images = 100 * torch.randn(64, 40, generator=torch.Generator().manual_seed(1))
    logits, weight, bias = model(images), model.head.weight, model.head.bias
    assert torch.linalg.matrix_rank((logits - bias).double(), rtol=1e-5) == 3
    assert model.embed(images).shape == (64, 3) and model.embed(images).abs().max() <= 1
    torch.testing.assert_close(model.head(model.embed(images)), logits)
    gaps = (logits[:, :, None] - logits[:, None, :]).abs().amax(0)
    most = (weight[:, None] - weight[None]).abs().sum(2) + (bias[:, None] - bias[None]).abs()
    assert (gaps <= most + 1e-4).all() and gaps.max() > 0.1


def test_size_of_the_published_head():
    def of(model):
        return sum(parameter.numel() for parameter in model.parameters())

    assert of(narrow(2048, 530, 50)) == 133_576 and of(narrow(2048, 530, 50, norm=False)) == 133_576 - 2 * 2048
    assert of(nn.Linear(2048, 530)) == 1_085_970


IMAGES = torch.rand(200, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 1.8 - 0.9
LABELS_RANDOM_ERASING = torch.arange(200) % 5


def erase(defense, images=IMAGES, seed=0):
    altered, labels = defense.alter_batch(
        images, LABELS_RANDOM_ERASING[: len(images)], torch.Generator().manual_seed(seed)
    )
    assert torch.equal(labels, LABELS_RANDOM_ERASING[: len(images)])
    return altered, (altered != images).any(dim=1)


def test_the_published_setting_erases_a_square_of_every_image():
    altered, erased = erase(RandomErasing())
    share = erased.float().mean(dim=(1, 2))
    assert share.min() > 0.08 and share.max() < 0.42 and 0.22 < share.mean() < 0.28
    sides = torch.stack([erased.any(dim=2).sum(1), erased.any(dim=1).sum(1)], dim=1)
    assert torch.equal(sides[:, 0], sides[:, 1]) and torch.equal(sides.prod(1), erased.sum(dim=(1, 2)))  # a full square
    colour = torch.tensor(PUBLISHED_COLOUR)
    assert torch.equal(altered.permute(0, 2, 3, 1)[erased].unique(dim=0), colour[None])
    assert torch.equal(altered.permute(0, 2, 3, 1)[~erased], IMAGES.permute(0, 2, 3, 1)[~erased])


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


def test_probability_and_independence_of_the_images():
    _, erased = erase(RandomErasing(p=0.3))
    hit = erased.any(dim=(1, 2))
    assert 0.22 < hit.float().mean() < 0.38
    _, always = erase(RandomErasing(p=1.0))
    assert torch.equal(erased[hit], always[hit])  # the same boxes: every image uses the same numbers


def test_fillings():
    altered, erased = erase(RandomErasing(fill="constant", colour=(-1.0, 0.0, 1.0)))
    assert torch.equal(altered.permute(0, 2, 3, 1)[erased].unique(dim=0), torch.tensor([[-1.0, 0.0, 1.0]]))
    altered, erased = erase(RandomErasing(fill="mean"))
    for image in range(3):
        expected = IMAGES[image].mean(dim=(1, 2))
        torch.testing.assert_close(altered[image][:, erased[image]], expected[:, None].expand(-1, erased[image].sum()))
    altered, erased = erase(RandomErasing(fill="random"))
    noise = altered.permute(0, 2, 3, 1)[erased]
    assert noise.abs().max() <= 1 and noise.std().item() == pytest.approx(1 / 3**0.5, rel=0.02)


def test_a_box_that_never_fits_leaves_the_image_whole():
    defense = RandomErasing(area=(0.9, 0.9), aspect=(3.0, 3.0))
    assert torch.equal(erase(defense)[0], IMAGES)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize(
    ("defense", "parts"),
    [
        (Freeze(stages=2), ("stem", "blocks.0")),
        (Freeze(layers=("blocks.0",)), ("blocks.0",)),
        (Freeze(fraction=0.2), ("stem", "blocks.0")),
    ],
)
def test_frozen_parts_keep_weights_and_statistics_while_the_rest_learns(defense, parts, tools):
    before = state(tools.prepared(defense))
    model, _ = tools.train(defense, epochs=1)
    assert defense.frozen_parts(model) == parts
    moved = changed(before, state(model))
    held = {name for name in before if name.startswith(tuple(f"backbone.{part}." for part in parts))}
    assert held and not moved & held
    assert moved == set(before) - held


def test_frozen_norms_use_their_own_statistics_in_training(tools):
    """Not those of the batch: that is what keeping them in evaluation mode means."""
    defense = Freeze(stages=1)
    model = tools.prepared(defense)
    model.backbone.stem[1].running_mean.fill_(3.0)
    images, labels = tools.colours(per_class=2)
    outputs = []
    model.backbone.stem.register_forward_hook(lambda *a: outputs.append(a[2].detach().clone()))
    tools.take_step(defense, model, images, labels)
    norm = model.backbone.stem[1]
    expected = (model.backbone.stem[0](images) - 3.0) / (norm.running_var + norm.eps).sqrt()[:, None, None]
    torch.testing.assert_close(outputs[0], expected.detach(), rtol=1e-4, atol=1e-4)
    assert model.backbone.blocks.training and not model.backbone.stem.training


def test_freezing_everything_or_nothing_is_refused(tools):
    with pytest.raises(InputError, match="defense freeze: stages: expected at most 3 with resnet_small, got 4"):
        Freeze(stages=4).check("resnet_small")
    with pytest.raises(InputError, match="expected at least one trained part of resnet_small, got 'all of them'"):
        Freeze(layers=("stem", "blocks.0", "blocks.1", "features")).check("resnet_small")
    with pytest.raises(InputError, match=r"expected layers of resnet_small \(stem, .*\), got 'layer1'"):
        Freeze(layers=("layer1",)).check("resnet_small")
    with pytest.raises(InputError, match=r"fraction: expected enough for the first block of .*, got 1e-05"):
        tools.prepared(Freeze(fraction=1e-5))


MAP = torch.rand(2, 64, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scale", [0.0, 0.4])
def test_a_small_block_adds_its_scaled_skip_or_nothing(scale, tools):
    model = tools.prepared(SkipRemoval(scale=scale)).eval()
    plain = tools.prepared(Defense()).eval()
    block, before = model.backbone.blocks[1], plain.backbone.blocks[1]
    branch = before.second(F.relu(before.first(MAP)))
    torch.testing.assert_close(block(MAP), F.relu(branch + scale * before.skip(MAP)))
    first = torch.rand(2, 32, 8, 8, generator=tools.generator())
    torch.testing.assert_close(model.backbone.blocks[0](first), plain.backbone.blocks[0](first))  # only the last stage


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


def test_a_densenets_last_block_becomes_a_chain(tools):
    model = tools.prepared(SkipRemoval(), "densenet121").eval()
    plain = build_classifier("densenet121", 4, seed=0, protocol="clean").eval()
    assert model.feature_dim == 32 and model.num_classes == 4
    images = torch.rand(2, 3, 64, 64, generator=tools.generator()) * 2 - 1
    seen = {}
    for name in ("transition3", "denseblock4"):
        module = model.backbone.features.get_submodule(name)
        module.register_forward_hook(lambda *a, name=name: seen.update({name: a[2].clone()}))
    with torch.no_grad():
        assert model(images).shape == (2, 4)
        x = seen["transition3"]
        torch.testing.assert_close(x, plain.backbone.features[:-2](images))
        for layer in model.backbone.features.denseblock4:
            out = layer.conv1(F.relu(layer.norm1(x)))
            x = layer.conv2(F.relu(layer.norm2(out)))
    torch.testing.assert_close(seen["denseblock4"], x)
    again = tools.prepared(SkipRemoval(), "densenet121")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    result = tools.take_step(SkipRemoval(), model.train(), images, torch.tensor([0, 1]))
    result.loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    ("architecture", "asked", "reason"),
    [
        ("vgg_small", {}, "it has no skip connections"),
        ("vit_b_16", {}, "its blocks form no stages"),
        ("densenet121", {"scale": 0.5}, "scale: expected 0 with densenet121, whose skips are concatenated, got 0.5"),
        ("resnet34", {"skip": "stanford_dogs"}, "an architecture with official factors .resnet50, resnet101"),
        ("resnet18", {"skip": (1.0, 0.0)}, "expected 4 factors with resnet18, one for each stage"),
        ("densenet121", {"skip": (1.0, 0.5, 1.0, 1.0)}, "skip: expected 0 or 1 with densenet121"),
    ],
)
def test_where_it_cannot_be_done_the_reason_is_given(architecture, asked, reason):
    with pytest.raises(InputError, match=f"^defense skip_removal.*{reason}"):
        SkipRemoval(**asked).check(architecture)


def test_a_stage_loses_its_own_skips_and_no_other(tools):
    """The first of two stages at 0.3: its block adds so much of its skip, the second is as it was."""
    model = tools.prepared(SkipRemoval(skip=(0.3, 1.0))).eval()
    plain = tools.prepared(Defense()).eval()
    x = torch.rand(2, 32, 8, 8, generator=tools.generator())
    block = plain.backbone.blocks[0]
    expected = F.relu(block.second(F.relu(block.first(x))) + 0.3 * block.skip(x))
    torch.testing.assert_close(model.backbone.blocks[0](x), expected)
    torch.testing.assert_close(model.backbone.blocks[1](MAP), plain.backbone.blocks[1](MAP))


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
