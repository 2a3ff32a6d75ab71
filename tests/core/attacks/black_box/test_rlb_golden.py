"""RLB-MI against values of the official code (tests/golden/black_box.npz)."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.black_box.rlb_learner import paper_learner
from smoothsweep.core.attacks.black_box.rlb_search import Draws, Episodes, Search, SearchVariant, scores_of
from smoothsweep.core.attacks.black_box.soft_actor_critic import OFFICIAL, Actor, Critic, Replay, SoftActorCritic

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "black_box.npz")
SIZE, HIDDEN, MINIBATCH = 6, 16, 8
OFFICIALLY = SearchVariant(floored=False, ask_twice=True, by_margin=False)


def golden(name):
    return torch.from_numpy(np.asarray(GOLDEN[name]))


def weights(prefix):
    return {key.removeprefix(prefix): golden(key).clone() for key in GOLDEN.files if key.startswith(prefix)}


def blocks(z):
    """The stand-in generator: one number for each block of an image, [N, 192]."""
    return torch.sigmoid(z @ golden("rlb_si_G_A") + golden("si_G_b"))


def target(z):
    features = torch.tanh((blocks(z) - 0.5) @ golden("si_T0_A"))
    return (features @ golden("si_T0_B")).softmax(1)


@pytest.mark.parametrize("kind", ["same", "mixed"])
def test_rewards_match(kind):
    """Rows 4 and 7 underflow: -inf, as officially."""
    state = golden("rlb_reward_state_logits").softmax(1)
    action = golden("rlb_reward_action_logits").softmax(1) if kind == "mixed" else state
    scores, rewards = scores_of(state, action, 1, floored=False)
    expected = golden(f"rlb_reward_{kind}_score1_score2_score3_reward")
    torch.testing.assert_close(torch.cat([scores, rewards[:, None]], 1), expected, atol=2e-3, rtol=0)
    if kind == "same":
        assert rewards[[4, 7]].tolist() == [-torch.inf] * 2


def test_rewards_by_hand_and_with_a_floor():
    p = torch.tensor([[0.2, 0.5, 0.3]])
    assert scores_of(p, p, 1, floored=False)[1].item() == pytest.approx(-15.648092, abs=1e-4)
    assert scores_of(p, p, 0, floored=False)[1].item() == pytest.approx(-135.382517, abs=1e-4)
    gone = torch.tensor([[1.0, 0.0, 0.0]])
    scores, rewards = scores_of(gone, gone, 1, floored=True)
    assert scores[0].tolist() == pytest.approx([-100, -100, -16.118096], abs=1e-5)
    assert rewards.item() == pytest.approx(-528.944765, abs=1e-4)


@pytest.mark.parametrize(
    ("run", "episodes", "steps", "diversity", "label"), [("rlb_run0", 30, 1, 0.0, 3), ("rlb_run1", 14, 2, 0.3, 7)]
)
def test_a_whole_attack_matches(run, episodes, steps, diversity, label):
    """Every step, roll-out, learning step and query. Under one step an episode the noise of the passes that are left
    out is drawn, so the list of noises fits to its end.
    """
    noise, z_draws, rows = (iter(golden(f"{run}_{name}")) for name in ("noise", "z_draws", "replay_index"))
    actor, critic = Actor(SIZE, HIDDEN, torch.Generator()), Critic(SIZE, HIDDEN, torch.Generator())
    actor.load_state_dict(weights("rlb_init_actor_local."))
    critic.load_state_dict(weights("rlb_init_critic1."))
    learner = SoftActorCritic(
        actor,
        [critic],
        OFFICIAL,
        noise=lambda *shape: next(noise).expand(shape),
        lr=5e-4,
        gamma=0.99,
        tau=0.01,
        one_step=steps == 1,
    )
    asked = []

    def ask(z):
        asked.append(z)
        return target(z)

    replay = Replay(100, SIZE)
    draws = Draws(latents=lambda count: next(z_draws)[None], positions=lambda held, count: next(rows))
    config = Episodes(episodes=episodes, steps=steps, diversity=diversity, minibatch=MINIBATCH, at_once=1)
    found = Search(ask, learner, label, config, OFFICIALLY, draws, replay, keep=1).run()
    assert all(next(source, None) is None for source in (noise, z_draws, rows))

    kept = replay.at(torch.arange(len(replay)))
    for name, values in (("state", kept.states), ("action", kept.actions), ("next_state", kept.next_states)):
        torch.testing.assert_close(values, golden(f"{run}_{name}"), atol=1e-5, rtol=0, msg=name)
    torch.testing.assert_close(kept.rewards[:, 0].double(), golden(f"{run}_reward"), atol=2e-3, rtol=0)
    assert torch.equal(kept.dones[:, 0].double(), golden(f"{run}_done"))
    pairs = [target(z) for z in asked if len(z) == 2][: episodes * steps]
    scores = torch.cat([scores_of(p[:1], p[1:], label, floored=False)[0] for p in pairs])
    torch.testing.assert_close(scores.float(), golden(f"{run}_scores123"), atol=2e-3, rtol=0)

    tests = golden(f"{run}_test_z")
    torch.testing.assert_close(torch.cat([z for z in asked if len(z) == 1]), tests, atol=1e-5, rtol=0)
    torch.testing.assert_close(target(tests)[:, label].double(), golden(f"{run}_test_score"), atol=1e-5, rtol=0)
    best = golden(f"{run}_test_score").argmax()
    torch.testing.assert_close(found.z[0], tests[best], atol=1e-5, rtol=0)
    torch.testing.assert_close(blocks(found.z)[0], golden(f"{run}_best_blocks").flatten(), atol=1e-5, rtol=0)
    assert found.confidences.item() == pytest.approx(float(golden(f"{run}_test_score").max()), abs=1e-5)
    assert sum(map(len, asked)) == int(GOLDEN[f"{run}_target_queries"]) == episodes * (2 * steps + 1)
    assert found.curves["queries"][-1] == sum(map(len, asked))
    assert learner.log_temperature.item() == pytest.approx(float(GOLDEN[f"{run}_log_temperature_final"]), abs=1e-5)
    for network, name in ((actor, "actor_local"), (critic, "critic1")):
        for key, expected in weights(f"{run}_final_{name}.").items():
            torch.testing.assert_close(network.state_dict()[key], expected, atol=2e-4, rtol=0)


def test_the_official_stream_begins_as_published():
    """torch's CPU generator after an agent of official size with seed 42 is built; the same for every class."""
    settings = SimpleNamespace(agent="official", hidden=256, lr=5e-4, gamma=0.99, tau=0.01, steps=1)
    learner, draws = paper_learner(settings, 100, 42, device="cpu")
    assert torch.equal(draws.latents(1)[0, :8], golden("rlb_seed42_first_z_head"))
    assert learner.noise(1, 1).item() == float(GOLDEN["rlb_seed42_first_e"])
    assert torch.equal(draws.latents(1)[0, :8], golden("rlb_seed42_second_z_head"))
