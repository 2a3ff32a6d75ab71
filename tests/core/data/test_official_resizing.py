"""How official evaluations enlarge, stretch and rotate images, number by number."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.utils import make_grid

from smoothsweep.core.data.augmentation import rotated
from smoothsweep.core.data.images import aligned_corners, stretched, truncated_bytes
from smoothsweep.core.metrics.fidelity import knn_distance
from smoothsweep.core.seeds import generator
from tests.lowres import blocky, golden, pooled, s, u
from tests.plg import golden as of_plg


def test_truncated_bytes_are_those_of_the_official_code():
    images = u("low2high", (2, 3, 64, 64))[:1]
    steps = (truncated_bytes(2 * images - 1, 112) + 1) * 127.5
    assert torch.equal(steps.round().to(torch.uint8), golden("eval_low2high_uint8"))


def test_aligned_corners_are_kornias():
    images = u("low2high", (2, 3, 64, 64))[:1]
    found = (aligned_corners(2 * images - 1, 112) + 1) / 2
    torch.testing.assert_close(found[..., ::2, ::2], of_plg("eval_plg_resize112"), rtol=0, atol=2e-5)


def test_a_picture_by_hand():
    image = torch.tensor([-0.5, 0.0, 0.25, 1.5]).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    assert stretched(image)[0, 0].flatten().tolist() == [0, 64, 96, 255]
    both = torch.cat([image, 0.1 * image])
    assert torch.equal(stretched(both)[0], stretched(both)[1])  # each by itself
    assert stretched(torch.full((1, 3, 2, 2), 0.7)).sum() == 0  # of one colour: black, as torchvision's


def test_it_is_what_torchvision_saves():
    image = 0.2 + 0.5 * s("png", (1, 3, 64, 64))
    grid = make_grid(image, normalize=True).mul(255).add(0.5).clamp(0, 255).to(torch.uint8)  # as save_image has it
    assert torch.equal(stretched(image)[0], grid)
    official = golden("eval_saved_png_uint8").permute(2, 0, 1).int()
    assert (stretched(image)[0].int() - official).abs().max() <= 1
    first = 0.15 + 0.6 * blocky("plg_png", 20)
    official = golden("plg_png_first_uint8").permute(2, 0, 1).int()
    assert (stretched(first)[0, :, ::8, ::8].int() - official).abs().max() <= 1


def test_the_distance_of_plg_is_that_of_the_saved_pictures():
    """Saved, read again, enlarged, looked at by the evaluator: the official number, which the images miss."""
    labels, real_labels = torch.arange(20) % 10, torch.arange(30) % 10
    images = 0.15 + 0.6 * blocky("plg_png", 20)

    def distance(shown):
        features = (pooled(aligned_corners(shown, 112)) - 0.5) @ golden("si_E_A")
        return knn_distance(features, labels, golden("plg_png_real_feat"), real_labels, squared=True, official=False)

    assert distance(stretched(images).float() / 255) == pytest.approx(golden("plg_png_knn").item(), abs=1e-3)
    assert distance(images) != pytest.approx(golden("plg_png_knn").item(), abs=0.1)


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
