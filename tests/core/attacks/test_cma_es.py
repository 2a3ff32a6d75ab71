"""The search by CMA-ES; a direction of the latents measured in another unit changes nothing."""

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.cma_es import evolve, principal_space
from smoothsweep.core.attacks.ppa.config import Restarts
from smoothsweep.core.attacks.ppa.pool import around
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import nearest_latents

SETTINGS = {"dimensions": 6, "population": 10, "sigma": 0.5, "generations": 30, "numpy_seed": 3}


def towards(goal):
    """A target that is surer of class 1 the nearer a move is to `goal`."""
    shown = []

    def ask(moves):
        shown.append(len(moves))
        logit = 12 - 3 * (moves - goal).square().sum(1)
        return torch.stack([torch.zeros_like(logit), logit, torch.zeros_like(logit)], 1).softmax(1)

    return ask, shown


def test_it_finds_the_way_and_counts_its_queries():
    goal = torch.tensor([1.0, -1, 0.5, 0, 2, -0.5])
    ask, shown = towards(goal)
    run = evolve(ask, 1, **SETTINGS)
    assert (run.move - goal).norm() < 0.3 * goal.norm() and run.confidence > 0.99
    assert sum(shown) == 1 + 10 * run.generations and max(shown) == 10
    assert run.curve == sorted(run.curve) and len(run.curve) == run.generations + 1 and run.curve[-1] == run.margin


def test_it_draws_from_its_own_seed_and_leaves_numpys_generator_alone():
    goal = torch.ones(6)
    np.random.seed(7)
    before = np.random.get_state()[1].copy()
    first, again = (evolve(towards(goal)[0], 1, **SETTINGS) for _ in range(2))
    np.random.rand(3)
    np.random.seed(7)
    assert (np.random.get_state()[1] == before).all()
    assert torch.equal(first.move, again.move) and first.curve == again.curve
    other = evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 4})
    clock = evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 0})
    assert not torch.equal(first.move, other.move)
    assert torch.equal(clock.move, evolve(towards(goal)[0], 1, **{**SETTINGS, "numpy_seed": 0}).move)


@pytest.mark.parametrize("answer", [0.5, float("nan")])
def test_where_every_image_says_the_same_it_ends_early_at_its_start(answer):
    run = evolve(lambda moves: torch.full((len(moves), 2), answer), 0, **SETTINGS)
    assert run.converged and run.generations < 30 and not run.move.any()


def test_it_leaves_nothing_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cma_signals.in").write_text('{"timeout": 0}')  # which cma would obey
    assert evolve(towards(torch.ones(6))[0], 1, **{**SETTINGS, "generations": 2}).generations == 2
    assert [path.name for path in tmp_path.iterdir()] == ["cma_signals.in"]


def test_directions_are_as_long_as_the_pool_is_wide():
    source = torch.Generator().manual_seed(0)
    w = torch.randn(4000, 3, generator=source) * torch.tensor([3.0, 0.0, 1.0]) + torch.tensor([5.0, 2, 0])
    space = principal_space(w, 64, width=1.0, slope=None)
    torch.testing.assert_close(space.basis, torch.diag(torch.tensor([3.0, 0, 1]))[[0, 2]], atol=0.1, rtol=0)
    start = torch.tensor([5.0, 2, 0])
    moved = space.around(start, torch.tensor([[0.0, 0.0], [1.0, 0.0], [9.0, -9.0]]))
    torch.testing.assert_close(moved[0], start)
    torch.testing.assert_close(moved[2], torch.tensor([8.0, 2, -1]), atol=0.2, rtol=0)  # cut to the box
    outside = torch.tensor([50.0, 2, 0])
    assert torch.equal(space.around(outside, torch.zeros(1, 2))[0], outside)  # a start holds
    with pytest.raises(InputError, match=r"attack\.pool: expected latents that differ in at least 2 directions, got 1"):
        principal_space(w[:2], 64, width=1.0, slope=None)


def test_the_box_of_leaky_latents_is_measured_before_the_activation():
    before = torch.tensor([[-2.0, 1.0], [2.0, 1.5], [-6.0, 2.0]])
    w = torch.where(before < 0, before * 0.2, before)
    space = principal_space(w, 2, width=1.0, slope=0.2)
    low, high = before.mean(0) - before.std(0, unbiased=False), before.mean(0) + before.std(0, unbiased=False)
    torch.testing.assert_close(space.low, torch.where(low < 0, low * 0.2, low))
    torch.testing.assert_close(space.high, torch.where(high < 0, high * 0.2, high))


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
