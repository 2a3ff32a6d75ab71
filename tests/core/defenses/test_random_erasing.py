import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.regularisers import PUBLISHED_COLOUR, RandomErasing, box_mask

IMAGES = torch.rand(200, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 1.8 - 0.9
LABELS = torch.arange(200) % 5


def erase(defense, images=IMAGES, seed=0):
    altered, labels = defense.alter_batch(images, LABELS[: len(images)], torch.Generator().manual_seed(seed))
    assert torch.equal(labels, LABELS[: len(images)])
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


@settings(deadline=None, max_examples=30)
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
