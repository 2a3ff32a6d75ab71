"""Pictures as PLG-MI saves them: stretched each by itself, and what its evaluator then sees of them."""

import pytest
import torch
from torchvision.utils import make_grid

from smoothsweep.core.data.enlarging import aligned_corners
from smoothsweep.core.data.stretching import stretched
from smoothsweep.core.metrics.distances import knn_distance
from tests.lowres import blocky, golden, pooled, s


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
