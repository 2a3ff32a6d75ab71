"""Where every direction of the latents has its own scale, a direction measured in another unit changes nothing."""

import torch

from smoothsweep.core.attacks.cma_es import principal_space
from smoothsweep.core.attacks.ppa.config import Restarts
from smoothsweep.core.attacks.ppa.pool import around
from smoothsweep.core.priors.base import nearest_latents

UNITS = torch.tensor([0.05, 1.0, 20.0, 3.0])
POOL = torch.randn(200, 1, 4, generator=torch.Generator().manual_seed(0)) + 1


def in_both(found):
    """What is found, of the pool and of the pool in other units, in the pool's own."""
    return found(POOL, torch.ones(4)), found(POOL * UNITS, UNITS) / UNITS


def test_of_restarts():
    def restarted(pool, units):
        starts = pool[:5], torch.arange(5), torch.ones(5)
        return around(starts, pool, Restarts(count=3, spread=0.5), seed=1, target_class=2)[0]

    torch.testing.assert_close(*in_both(restarted))


def test_of_a_projection():
    picture = torch.randn(4, 3 * 8 * 8, generator=torch.Generator().manual_seed(1)) / 4
    wanted = (POOL[7:9, 0] + 0.3) @ picture

    def projected(pool, units):
        def synthesize(w):
            return ((w[:, 0] / units) @ picture).view(-1, 3, 8, 8)

        return nearest_latents(synthesize, wanted.view(-1, 3, 8, 8), pool, steps=6)

    own, other = in_both(projected)
    torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-3)
    assert (own - POOL[7:9]).abs().max() > 0.01


def test_of_the_box_of_a_search():
    for end in ("low", "high"):
        torch.testing.assert_close(
            *in_both(lambda pool, units, end=end: getattr(principal_space(pool[:, 0], 4, width=2, slope=None), end))
        )
