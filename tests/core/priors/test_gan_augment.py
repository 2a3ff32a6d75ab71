import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.priors.gan_augment import HOLE, Distortion, distort, draw_distortion


def neutral(n, side, **changes):
    plain = {
        "flip": torch.zeros(n, dtype=torch.bool),
        "shift": torch.zeros(n, 2, dtype=torch.int64),
        "brightness": torch.zeros(n),
        "saturation": torch.ones(n),
        "contrast": torch.ones(n),
        "hole": torch.full((n, 2), side),
    }
    return Distortion(**(plain | changes))


@pytest.fixture
def images():
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_neutral_draw_changes_nothing(images):
    torch.testing.assert_close(distort(images, neutral(2, 8)), images, atol=1e-6, rtol=0)


def test_each_distortion_in_closed_form(images):
    def only(**changes):
        return distort(images, neutral(2, 8, **changes))

    flipped = only(flip=torch.tensor([True, False]))
    torch.testing.assert_close(flipped[0], images[0].flip(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(flipped[1], images[1], atol=1e-6, rtol=0)
    shifted = only(shift=torch.tensor([[2, -1], [0, 0]]))
    torch.testing.assert_close(shifted[0, :, 2:, :-1], images[0, :, :-2, 1:], atol=1e-6, rtol=0)
    torch.testing.assert_close(shifted[0, :, 1, :-1], images[0, :, 1, 1:], atol=1e-6, rtol=0)
    torch.testing.assert_close(only(brightness=torch.full((2,), 0.3)), images + 0.3, atol=1e-6, rtol=0)
    grey = only(saturation=torch.zeros(2))
    torch.testing.assert_close(grey, images.mean(1, keepdim=True).expand(-1, 3, -1, -1), atol=1e-6, rtol=0)
    flat = only(contrast=torch.zeros(2))
    torch.testing.assert_close(flat[0], torch.full_like(flat[0], images[0].mean().item()), atol=1e-6, rtol=0)
    cut = only(hole=torch.tensor([[2, -1], [8, 8]]))
    assert not cut[0, :, 2:6, :3].any()
    torch.testing.assert_close(cut[0, :, :, 3:], images[0, :, :, 3:], atol=1e-6, rtol=0)
    torch.testing.assert_close(cut[1], images[1], atol=1e-6, rtol=0)


@settings(max_examples=20, deadline=None)
@given(probability=st.floats(0, 1), seed=st.integers(0, 2**31))
def test_draws_stay_in_range_and_are_a_function_of_the_seed(probability, seed):
    first, again = (draw_distortion(40, 16, probability, torch.Generator().manual_seed(seed)) for _ in range(2))
    for name in vars(first):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert first.shift.abs().max() <= 2
    assert first.hole.min() >= -16 * HOLE and first.hole.max() <= 16
    assert (first.contrast > 0.5).all() and (first.saturation >= 0.5).all()


def test_probability_is_the_share_of_distorted_images():
    none = draw_distortion(50, 16, 0.0, torch.Generator().manual_seed(0))
    assert not none.flip.any() and not none.shift.any() and (none.hole == 16).all() and (none.contrast == 1).all()
    some = draw_distortion(4000, 16, 0.25, torch.Generator().manual_seed(0))
    assert (some.brightness != 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert some.flip.float().mean().item() == pytest.approx(0.125, abs=0.03)


def test_gradients_reach_the_images_twice(images):
    distortion = draw_distortion(2, 8, 1.0, torch.Generator().manual_seed(3))
    leaf = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(distort(leaf, distortion).square().sum(), leaf, create_graph=True)
    gradient.square().sum().backward()
    assert leaf.grad.isfinite().all() and leaf.grad.abs().sum() > 0


def test_a_share_of_the_draws_distorts_a_share_of_the_images():
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    whole = draw_distortion(6, 8, 1.0, torch.Generator().manual_seed(2))
    share = distort(images[1::2], whole.part(slice(1, None, 2)))
    torch.testing.assert_close(share, distort(images, whole)[1::2])
