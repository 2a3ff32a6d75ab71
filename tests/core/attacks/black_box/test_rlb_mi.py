"""RLB-MI: its queries, its ties, and what an underflow does to it."""

import math
from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.attacks.black_box.rlb_learner import class_learner
from smoothsweep.core.attacks.black_box.rlb_mi import RLBMI
from smoothsweep.core.attacks.black_box.rlb_search import (
    CURVE_POINTS,
    Episodes,
    Search,
    SearchVariant,
)
from smoothsweep.core.attacks.black_box.soft_actor_critic import Replay
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from tests.core.attacks.black_box.test_brep_mi import CLASSES, SIZE, Blocks, Halves

SMALL = {"episodes": 60, "minibatch": 16, "hidden": 8, "lr": 0.01}


class Steep(Halves):
    """Halves whose logits are so far apart that the softmax of the lower underflows."""

    def forward(self, images):
        return 1e4 * super().forward(images)


def look(target=None):
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(target or Halves(), "scores", num_classes=CLASSES, image_size=4, execution=execution)


def inverted(protocol="clean", target=None, target_class=1, **changes):
    attack, view = make_attack("rlb_mi", **{**SMALL, **changes}), look(target)
    found = attack.invert(view, AttackInputs(protocol=protocol, prior=Blocks()), target_class, seed=3)
    return attack, view, found


@pytest.mark.parametrize(
    ("protocol", "changes", "per_episode"),
    [
        ("paper", {}, 3),
        ("clean", {}, 2),
        ("paper", {"steps": 2}, 5),
        ("clean", {"diversity": 0.2}, 3),
        ("clean", {"steps": 2, "at_once": 3}, 3),
        ("paper", {"at_once": 7}, 3),
    ],
)
def test_queries_follow_from_the_episodes(protocol, changes, per_episode):
    attack, view, found = inverted(protocol, **changes)
    assert view.queries == 60 * per_episode == attack.queries(protocol) == found.curves["queries"][-1]
    assert set(found.facts) == set(RLBMI.facts)


def test_curves_have_their_points_and_only_rise():
    for episodes, points in ((60, 60), (250, CURVE_POINTS)):
        _, _, found = inverted(episodes=episodes, at_once=3)
        assert {len(curve) for curve in found.curves.values()} == {points}
        for name in ("queries", "confidence", "reward"):
            assert (found.curves[name].diff() >= 0).all()
        assert found.curves["confidence"][-1] == found.scores[0]
        assert found.curves["reward"][-1] == pytest.approx(found.facts["best_reward"], rel=1e-6)


@pytest.mark.parametrize("agent", ["official", "textbook"])
def test_it_learns_to_please_the_target(agent):
    """Half of all latents are of the class; a policy that learnt goes far into it."""
    attack = make_attack("rlb_mi", agent=agent, episodes=300, minibatch=32, hidden=16, lr=0.02)
    z = []
    inputs = AttackInputs(
        protocol="clean",
        prior=SimpleNamespace(
            z_dim=SIZE,
            num_ws=1,
            w_dim=SIZE,
            resolution=4,
            map=Blocks().map,
            synthesize=lambda w: (z.append(w[:, 0]), Blocks().synthesize(w))[1],
        ),
    )
    attack.invert(look(), inputs, 1, seed=3)
    first = torch.cat(z)[:, 0]
    assert first[:60].mean().abs() < 0.35 and first[-60:].mean() > 0.6


def test_an_underflow_kills_the_official_policy_and_not_the_floored_one():
    """Class 2's probability is always 0: every reward is -inf. It dies at the first learning step that there is."""
    _, view, found = inverted("paper", Steep(), target_class=2)
    assert found.facts["died"] == 1 and found.facts["died_at"] == 17 and found.facts["underflows"] == 2 * 17
    assert view.queries == 17 * 2 + 16  # the roll-out after it is no number: nobody is shown it
    assert math.isnan(found.facts["best_reward"]) and found.w.isfinite().all() and len(found.curves["queries"]) == 60
    assert found.curves["confidence"].max() == 0
    for logarithm, protocol in (("floored", "paper"), (None, "clean")):
        _, _, found = inverted(protocol, Steep(), target_class=2, logarithm=logarithm)
        assert found.facts["died"] == 0 and math.isnan(found.facts["died_at"])
        assert found.facts["underflows"] > 0
        assert found.facts["best_reward"] == pytest.approx(4 * -100 + 8 * math.log(1e-7))
    _, _, found = inverted("clean", Steep(), target_class=2, logarithm="official")
    assert found.facts["died"] == 1


def searched(manner, confidences, keep=1):
    """A search whose roll-outs come to these probabilities of class 0, one after the other."""
    count, size = len(confidences), 2
    settings = SimpleNamespace(agent="official", hidden=4, lr=1e-3, gamma=0.99, tau=0.01, steps=1)
    learner, draws = class_learner(settings, size, 1, 0, device="cpu")
    shown, candidates = [], iter(confidences)

    def ask(z):
        if len(z) == 2:  # a step: state and action
            return torch.full((2, 3), 1 / 3)
        shown.append(z)
        return torch.stack([next(candidates) for _ in z])

    config = Episodes(episodes=count, steps=1, diversity=0.0, minibatch=count, at_once=1)
    found = Search(ask, learner, 0, config, manner, draws, Replay(count, size), keep=keep).run()
    return torch.cat(shown), found


def test_of_saturated_confidences_the_last_is_kept_officially_and_the_one_with_most_margin_otherwise():
    p = [torch.tensor(row) for row in ([0.9, 0.1, 0.0], [1.0, 1e-30, 0.0], [1.0, 1e-9, 0.0], [0.5, 0.4, 0.1])]
    official = SearchVariant(floored=True, ask_twice=True, by_margin=False)
    shown, found = searched(official, p, keep=3)
    assert torch.equal(found.z, shown[[2, 1, 0]]) and found.confidences.tolist() == pytest.approx([1.0, 1.0, 0.9])
    shown, found = searched(SearchVariant(floored=True, ask_twice=True, by_margin=True), p, keep=2)
    assert torch.equal(found.z, shown[[1, 2]])
    assert found.margins.tolist() == pytest.approx([30 * math.log(10), 9 * math.log(10)], rel=1e-5)
    shown, found = searched(SearchVariant(floored=True, ask_twice=True, by_margin=True), p[1:2] * 3)
    assert torch.equal(found.z, shown[:1])  # of equals the first
