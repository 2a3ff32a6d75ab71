"""The official loops as they are re-stated for the benchmark, and ours, come to the same."""

from __future__ import annotations

import pytest
import torch

from benchmarks import black_box
from benchmarks.black_box_yardstick import OfficialAgent, brep_class, plain, rlb_class
from smoothsweep.core.attacks.black_box.rlb_mi import RLBMI
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs


@pytest.fixture(scope="module")
def setting():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield black_box.prepare(3, epochs=3)
    torch.set_num_threads(threads)


def test_walks_are_the_same_at_the_same_queries(setting):
    found = black_box.brep(setting, max_passes=6, seed=7)
    assert set(found) == {"official", "ours", "ours, classes in lock-step"}
    for one in found.values():
        torch.testing.assert_close(one.z, found["official"].z, atol=1e-4, rtol=0)
        assert one.queries == found["official"].queries == 33 * 6


def test_a_walk_of_the_yardstick_counts_and_ends(setting):
    logits = plain(setting.prior, setting.target)
    start = torch.zeros(100)
    label = int(logits(start[None]).argmax())
    source = torch.Generator().manual_seed(1)
    run = brep_class(logits, start, label, lambda: torch.randn(32, 100, generator=source), patience=2, max_passes=4)
    assert run.queries % 33 == 0 and run.queries <= 33 * 4 and run.z.abs().max() <= 1.5


def test_a_search_is_the_same_while_rounding_is_small(setting):
    """As many episodes as fill a minibatch and three learning steps: one stream, one result, the same weights."""
    episodes, minibatch, seed = 19, 16, 7
    logits = plain(setting.prior, setting.target)
    run = rlb_class(logits, 100, 1, episodes=episodes, hidden=16, minibatch=minibatch, seed=seed)
    attack, view = RLBMI(episodes=episodes, hidden=16, minibatch=minibatch), black_box.view(setting, "scores")
    before = view.queries
    found = attack.invert(view, AttackInputs(protocol="paper", prior=setting.prior), 1, seed=seed)
    assert view.queries - before == run.queries == 3 * episodes
    torch.testing.assert_close(found.w[:, 0], run.z, atol=1e-3, rtol=0)


def test_the_yardsticks_critics_stay_twins():
    agent = OfficialAgent(4, 8, 4, seed=1)
    rows = [torch.randn(1, 4, generator=torch.Generator().manual_seed(i)) for i in range(6)]
    agent.replay = [(row, row.tanh(), float(i), row.tanh(), 1.0) for i, row in enumerate(rows)]
    for _ in range(3):
        agent.learn()
    assert all(torch.equal(a, b) for a, b in zip(*(one.parameters() for one in agent.critics), strict=True))
    assert agent.temperature.item() == pytest.approx(torch.tensor(-2 * 5e-4).exp().item(), abs=1e-4)
