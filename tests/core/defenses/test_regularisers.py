"""Defenses that add a term to the loss, and those that change the network."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.defenses.base import Defense, smoothed_targets
from smoothsweep.core.defenses.operations import box_mask, focal_losses
from smoothsweep.core.defenses.regularisers import (
    Loft,
    RandomErasing,
)
from smoothsweep.core.defenses.structure import SkipRemoval
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


IMAGES = torch.rand(200, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 1.8 - 0.9
LABELS_RANDOM_ERASING = torch.arange(200) % 5


def erase(defense, images=IMAGES, seed=0):
    altered, labels = defense.alter_batch(
        images, LABELS_RANDOM_ERASING[: len(images)], torch.Generator().manual_seed(seed)
    )
    assert torch.equal(labels, LABELS_RANDOM_ERASING[: len(images)])
    return altered, (altered != images).any(dim=1)


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
    defense = RandomErasing(area=(0.9, 0.9), aspect=(3.0, 3.0))
    assert torch.equal(erase(defense)[0], IMAGES)


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
