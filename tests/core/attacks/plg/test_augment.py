"""PLG-MI's random views against kornia's, step by step; and what is drawn."""

import pytest
import torch

from smoothsweep.core.attacks.plg.augment import cropped, distort, draw_distortion, jittered
from smoothsweep.core.seeds import generator
from tests.lowres import s
from tests.plg import distortion, golden

CASES = ("train0", "train1", "attack0", "attack1")


def every_other(images):
    """As images are stored."""
    return images[..., ::2, ::2]


@pytest.mark.parametrize("case", CASES)
def test_a_view_is_kornias(case):
    draw, images = distortion(f"plg_aug_{case}"), golden("plg_aug_in").requires_grad_()
    found = distort(images, draw)
    torch.testing.assert_close(every_other(found), golden(f"plg_aug_{case}_out"), rtol=0, atol=5e-5)
    if case.endswith("0"):
        (gradient,) = torch.autograd.grad((found * s("plg_aug_w", (3, 3, 64, 64))).sum(), images)
        torch.testing.assert_close(every_other(gradient), golden(f"plg_aug_{case}_grad_in"), rtol=0, atol=1e-3)


@pytest.mark.parametrize("case", ["train0", "attack0"])
def test_every_step_of_a_view_is_kornias(case):
    draw, images = distortion(f"plg_aug_{case}"), golden("plg_aug_in")
    crop = cropped(images, draw)
    torch.testing.assert_close(every_other(crop), golden(f"plg_aug_{case}_after_crop"), rtol=0, atol=5e-5)
    jitter = torch.where(draw.jitter[:, None, None, None], jittered(crop, draw), crop)
    torch.testing.assert_close(every_other(jitter), golden(f"plg_aug_{case}_after_jitter"), rtol=0, atol=5e-5)
    flip = torch.where(draw.mirror[:, None, None, None], jitter.flip(3), jitter)
    torch.testing.assert_close(every_other(flip), golden(f"plg_aug_{case}_after_flip"), rtol=0, atol=5e-5)


def test_an_order_of_each_image_is_that_image_s_own():
    shared, images = draw_distortion(4, 64, generator("order"), jitter=1.0), golden("plg_aug_in")[[0, 1, 2, 0]]
    together = jittered(images, shared)
    for place in range(4):
        alone = jittered(images[place : place + 1], shared.of(slice(place, place + 1)))
        torch.testing.assert_close(together[place], alone[0])
    assert len({tuple(row) for row in shared.order.tolist()}) > 1


def test_what_is_drawn_has_the_published_ranges():
    draw = draw_distortion(4000, 64, generator("ranges"), jitter=0.5)
    assert set(draw.side.tolist()) == set(range(57, 64))  # a box of 64 pixels is a miss
    for corner in (draw.top, draw.left):
        assert (corner >= 0).all() and (corner + draw.side <= 64).all() and corner.max() == 7
    for values, low, high in ((draw.brightness, 0.8, 1.2), (draw.contrast, 0.8, 1.2), (draw.degrees, -5, 5)):
        assert low <= values.min() < low + 0.02 * (high - low) and high - 0.02 * (high - low) < values.max() <= high
    for happens in (draw.jitter, draw.mirror, draw.rotate):
        assert happens.float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert draw_distortion(50, 64, generator("always"), jitter=1.0).jitter.all()
    assert torch.equal(draw.order.sort(1).values, torch.arange(4).expand(4000, 4))
    assert len(draw_distortion(9, 64, generator(1), jitter=0.5, shared_order=generator(2)).order) == 1
