"""Resizing, cropping and augmentation: the official image path, torchvision's values, steady draws."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms import functional as TF

from smoothsweep.core.data.augmentation import (
    Augmentation,
    _pixel_box,
    apply_augmentation,
    draw_augmentation,
)
from smoothsweep.core.data.images import (
    centre_crop,
    resize,
    to_uint8,
    to_unit,
)
from smoothsweep.core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden" / "data.npz"


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def images():
    return torch.rand(12, 3, 24, 24, generator=generator(1))


def test_to_unit_maps_the_ends_and_comes_back():
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).repeat(1, 3, 1, 1)
    unit = to_unit(levels)
    assert unit.dtype == torch.float32
    assert unit.min() == -1 and unit.max() == pytest.approx(1, abs=1e-6)
    assert torch.equal(to_uint8(unit), levels)
    with pytest.raises(ValueError, match="uint8"):
        to_unit(unit)


@pytest.mark.parametrize("size", [9, 12])
def test_crop_and_resize_match_the_published_image_path(golden, size):
    raw = torch.from_numpy(golden["img_raw"])
    expected = golden[f"img_crop32_resize{size}"]
    np.testing.assert_allclose(resize(centre_crop(raw, 32), size).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("out_size", [48, 24, 10])
def test_per_image_crop_equals_torchvisions_on_the_same_boxes(images, out_size):
    wide = Augmentation.none().replace(crop_scale=(0.3, 1.0), crop_ratio=(0.7, 1.4))
    draw = draw_augmentation(len(images), wide, generator())
    boxes = torch.stack(_pixel_box(draw, 24, 24, images.device), dim=1).int().tolist()
    got = apply_augmentation(images, draw, out_size=out_size)
    for i, box in enumerate(boxes):
        want = TF.resized_crop(images[i : i + 1], *box, [out_size, out_size], antialias=True)
        torch.testing.assert_close(got[i : i + 1], want, atol=1e-5, rtol=0)
    assert len({tuple(box) for box in boxes}) > 6  # one box per image, not one for all


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("brightness", TF.adjust_brightness),
        ("contrast", TF.adjust_contrast),
        ("saturation", TF.adjust_saturation),
        ("hue", TF.adjust_hue),
    ],
)
def test_colour_factors_are_torchvisions(images, part, function):
    draw = draw_augmentation(len(images), Augmentation.none().replace(**{part: 0.4}), generator())
    factors = getattr(draw, part)
    want = torch.stack([function(image, f.item()) for image, f in zip(images, factors, strict=True)])
    torch.testing.assert_close(apply_augmentation(images, draw), want, atol=1e-5, rtol=0)


@settings(max_examples=30, deadline=None)
@given(
    low=st.floats(0.05, 1.0),
    high=st.floats(0.05, 1.0),
    stretch=st.floats(1.0, 3.0),
    seed=st.integers(0, 2**31),
)
def test_boxes_stay_inside_and_within_the_ranges(low, high, stretch, seed):
    low, high = min(low, high), max(low, high)
    drawn = Augmentation.none().replace(crop_scale=(low, high), crop_ratio=(1 / stretch, stretch), brightness=0.2)
    draw = draw_augmentation(16, drawn, generator(seed))
    assert draw.brightness.min() >= 0.8 and draw.brightness.max() <= 1.2
    if draw.box is None:
        assert (low, high, stretch) == (1.0, 1.0, 1.0)
        return
    top, left, height, width = _pixel_box(draw, 40, 40, torch.device("cpu"))
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + height <= 40).all() and (left + width <= 40).all()
    area = draw.box[:, 0] * draw.box[:, 1]
    clipped = (draw.box[:, :2] == 1).any(dim=1)
    assert ((area <= high + 1e-5) & ((area >= low - 1e-5) | clipped)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop_scale": (0.0, 1.0)}, "crop_scale"),
        ({"crop_scale": (0.9, 0.5)}, "crop_scale"),
        ({"crop_scale": (0.5, 1.2)}, "crop_scale"),
        ({"crop_ratio": (2.0, 1.0)}, "crop_ratio"),
        ({"hue": 0.6}, r"hue: expected a number of at most 0.5, got 0.6"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Augmentation(**changes)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 12), seed=st.integers(0, 2**31), flip=st.sampled_from([0.0, 0.5]))
def test_a_shared_draw_is_one_images_draw_for_all(n, seed, flip):
    augmentation = Augmentation(flip=flip, shared=True)
    shared = draw_augmentation(n, augmentation, generator(seed))
    single = draw_augmentation(1, augmentation.replace(shared=False), generator(seed))
    assert len(shared) == n and (shared.flip is None) == (flip == 0.0)
    for name in ("box", "brightness", "contrast", "saturation", "hue", "flip"):
        value = getattr(shared, name)
        assert value is None or (len(value) == n and (value == getattr(single, name)).all())
