"""How official attacks bring their images to a judge's size."""

import torch

from smoothsweep.core.data.enlarging import ENLARGING, aligned_corners, truncated_bytes
from tests.lowres import golden, u
from tests.plg import golden as of_plg


def test_truncated_bytes_are_those_of_the_official_code():
    images = u("low2high", (2, 3, 64, 64))[:1]
    steps = (truncated_bytes(2 * images - 1, 112) + 1) * 127.5
    assert torch.equal(steps.round().to(torch.uint8), golden("eval_low2high_uint8"))


def test_aligned_corners_are_kornias():
    images = u("low2high", (2, 3, 64, 64))[:1]
    found = (aligned_corners(2 * images - 1, 112) + 1) / 2
    torch.testing.assert_close(found[..., ::2, ::2], of_plg("eval_plg_resize112"), rtol=0, atol=2e-5)


def test_every_way_keeps_the_range_and_gives_the_size():
    images = torch.tensor([-1.5, -1.0, 0.999, 1.5]).view(4, 1, 1, 1).expand(4, 3, 8, 8)
    for enlarge in ENLARGING.values():
        found = enlarge(images, 16)
        assert found.shape == (4, 3, 16, 16) and found.dtype == torch.float32
    assert truncated_bytes(images, 16)[:, 0, 0, 0].mul(127.5).add(127.5).round().tolist() == [0, 0, 254, 255]
