"""Frozen parts and removed skips."""

import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.structure import Freeze, SkipRemoval
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier


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
