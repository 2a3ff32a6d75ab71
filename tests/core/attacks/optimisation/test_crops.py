from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as tvf
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms import RandomResizedCrop

from smoothsweep.core.attacks.optimisation.crops import (
    DRAW_CROPS,
    CropRule,
    Crops,
    Preprocess,
    RowViews,
    Views,
    apply_crops,
    draw_crop_per_image,
    draw_shared_crop,
)
from smoothsweep.core.errors import InputError

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "ppa.npz")


def crops(*boxes, mirror=False):
    top, left, height, width = torch.tensor(boxes, dtype=torch.float64).T
    return Crops(top=top, left=left, height=height, width=width, mirror=torch.tensor([mirror] * len(boxes)))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [9, 12])
def test_preprocess_matches_the_official_image_path(size):
    images = Preprocess(crop=32, size=size)(torch.from_numpy(GOLDEN["img_raw"]))
    torch.testing.assert_close(images, torch.from_numpy(GOLDEN[f"img_crop32_resize{size}"]), atol=1e-5, rtol=0)


def test_preprocess_without_work_returns_the_images():
    images = torch.rand(2, 3, 8, 8)
    assert Preprocess(size=8)(images) is images
    with pytest.raises(InputError, match="at least 9 x 9"):
        Preprocess(size=8, crop=9)(images)


@pytest.mark.parametrize("box", [(0, 0, 17, 21), (3, 5, 11, 8), (10, 14, 7, 7)])
@pytest.mark.parametrize("size", [5, 16, 30])
@pytest.mark.parametrize("mirror", [False, True])
def test_whole_pixel_boxes_match_torchvision(box, size, mirror):
    images = torch.randn(4, 3, 17, 21, generator=seeded())
    expected = tvf.resized_crop(images, *box, [size, size], antialias=True)
    expected = expected.flip(3) if mirror else expected
    torch.testing.assert_close(apply_crops(images, crops(box, mirror=mirror), size), expected, atol=1e-5, rtol=0)


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted),
    ratio=st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(sorted),
    seed=st.integers(0, 2**31),
    protocol=st.sampled_from(sorted(DRAW_CROPS)),
)
def test_boxes_lie_inside_the_image(height, width, scale, ratio, seed, protocol):
    rule = CropRule(scale=tuple(scale), ratio=tuple(ratio), hflip=0.5)
    drawn = DRAW_CROPS[protocol](rule, 5, height, width, seeded(seed))
    assert len(drawn) == (1 if protocol == "paper" else 5)
    assert (drawn.top >= 0).all() and (drawn.left >= 0).all()
    assert (drawn.height >= 1).all() and (drawn.width >= 1).all()
    assert (drawn.top + drawn.height <= height + 1e-9).all()
    assert (drawn.left + drawn.width <= width + 1e-9).all()
    assert apply_crops(torch.ones(5, 3, height, width), drawn, 4).isfinite().all()


def test_shared_boxes_are_distributed_as_torchvision_draws_them():
    rule, image, source = (
        CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.25),
        torch.empty(3, 40, 40),
        seeded(),
    )
    drawn = [draw_shared_crop(rule, 7, 40, 40, source) for _ in range(1500)]
    ours = torch.stack([torch.cat([c.top, c.left, c.height, c.width]) for c in drawn])
    assert torch.equal(ours, ours.round())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = [RandomResizedCrop.get_params(image, list(rule.scale), list(rule.ratio)) for _ in range(1500)]
    theirs = torch.tensor(theirs, dtype=torch.float64)
    error = (ours.var(0) / 1500 + theirs.var(0) / 1500).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * error).all()
    assert (ours.std(0) / theirs.std(0) - 1).abs().max() < 0.1
    assert torch.cat([c.mirror for c in drawn]).double().mean().item() == pytest.approx(0.25, abs=0.05)


def test_area_and_ratio_of_boxes_per_image_follow_the_rule():
    drawn = draw_crop_per_image(CropRule(scale=(0.5, 0.7), ratio=(0.8, 1.2)), 500, 30, 30, seeded())
    area, ratio = drawn.height * drawn.width / 900, drawn.width / drawn.height
    assert area.min() >= 0.5 - 1e-9 and area.max() <= 0.7 + 1e-9 and area.std() > 0.04
    assert ratio.min() >= 0.8 - 1e-9 and ratio.max() <= 1.2 + 1e-9 and ratio.std() > 0.08
    assert not drawn.mirror.any()


def test_a_ratio_that_never_fits_falls_back_to_the_centre():
    rule = CropRule(scale=(1.0, 1.0), ratio=(4.0, 4.0))
    drawn = draw_shared_crop(rule, 1, 20, 20, seeded())
    expected = RandomResizedCrop.get_params(torch.empty(3, 20, 20), [1.0, 1.0], [4.0, 4.0])
    assert (drawn.top.item(), drawn.left.item(), drawn.height.item(), drawn.width.item()) == expected


@pytest.mark.parametrize("draw", [draw_crop_per_image, draw_shared_crop])
def test_rows_of_several_batches_get_each_the_crops_of_its_own_batch(draw):
    """Each batch draws for all five candidates, or one crop for all of them."""
    rule, images = CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5), torch.zeros(5, 3, 12, 12)
    views = [Views(rule=rule, count=5, key=(1, number), draw=draw) for number in (0, 1)]
    rows = RowViews([(views[0], slice(0, 2)), (views[1], slice(2, 5))])
    for step in (0, 1):
        first, second = (one.at(step, images) for one in views)
        found = rows.at(step, images, slice(1, 4))
        for name in ("top", "left", "height", "width", "mirror"):
            drawn = [getattr(crops, name).expand(5) for crops in (first, second)]
            assert torch.equal(getattr(found, name), torch.cat([drawn[0][1:2], drawn[1][2:4]]))
