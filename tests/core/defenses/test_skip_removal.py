import pytest
import torch
import torch.nn.functional as F

from core.defenses.base import Defense
from core.defenses.skip_removal import SkipRemoval
from core.errors import InputError
from core.models.classifiers import build_classifier

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


def test_removed_skips_carry_no_gradient_and_no_parameters(tools):
    """With the branch dead, nothing of the last block depends on its input any more."""
    model = tools.prepared(SkipRemoval()).eval()
    torch.nn.init.zeros_(model.backbone.blocks[1].second[1].weight)
    x = MAP.clone().requires_grad_()
    model.backbone.blocks[1](x).sum().backward()
    assert x.grad.abs().sum() == 0
    assert not any("skip" in name and "blocks.1" in name for name in model.state_dict())
    kept = tools.prepared(SkipRemoval(scale=0.5)).state_dict()
    assert any("skip" in name and "blocks.1" in name for name in kept)


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
    ("architecture", "scale", "reason"),
    [
        ("vgg_small", 0.0, "it has no skip connections"),
        ("inception_v3", 0.0, "it has no skip connections"),
        ("vit_b_16", 0.0, "its blocks form no stages"),
        ("densenet121", 0.5, "expected 0 with densenet121, whose skips are concatenated, got 0.5"),
    ],
)
def test_where_it_cannot_be_done_the_reason_is_given(architecture, scale, reason):
    with pytest.raises(InputError, match=f"^defense skip_removal.*{reason}"):
        SkipRemoval(scale=scale).check(architecture)
