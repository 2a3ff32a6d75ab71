"""Rotation against torch's own sampling."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.rotation import rotated
from smoothsweep.core.seeds import generator


def sampled(images, degrees):
    """The rotation by torch's own sampling."""
    angle = torch.deg2rad(degrees)
    matrix = torch.stack([angle.cos(), -angle.sin(), angle * 0, angle.sin(), angle.cos(), angle * 0], 1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=True)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


@settings(max_examples=15)
@given(degrees=st.lists(st.floats(-45, 45), min_size=1, max_size=3), side=st.integers(2, 20))
def test_a_rotation_and_its_gradient_are_those_of_torchs_sampling(degrees, side):
    source, angles = generator(side), torch.tensor(degrees, dtype=torch.float64)
    images = torch.rand(len(degrees), 2, side, side, generator=source, dtype=torch.float64).requires_grad_()
    wave = torch.randn(images.shape, generator=source, dtype=torch.float64)
    ours, theirs = rotated(images, angles), sampled(images, angles)
    torch.testing.assert_close(ours, theirs)
    for_ours, for_theirs = (torch.autograd.grad((found * wave).sum(), images)[0] for found in (ours, theirs))
    torch.testing.assert_close(for_ours, for_theirs)


def test_a_rotation_beyond_what_its_gradient_reaches_is_refused():
    with pytest.raises(ValueError, match="expected at most 45"):
        rotated(torch.zeros(1, 3, 8, 8), torch.tensor([45.5]))
