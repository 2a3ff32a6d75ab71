"""RLB-MI against values of the official code (tests/golden/black_box.npz), a learning step by hand, its queries, its
ties, and what an underflow does to it."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.rlb_mi import RLBMI
from smoothsweep.core.attacks.rlb_search import (
    Actor,
    Draws,
    Experience,
    QNetwork,
    Replay,
    Search,
    SoftActorCritic,
    learner_of,
    scores_of,
)
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from tests.core.attacks.test_black_box import CLASSES, GOLDEN, Blocks, Halves, golden

SIZE, HIDDEN, ROWS = 6, 16, 8
SMALL = {"episodes": 60, "minibatch": 16, "hidden": 8, "lr": 0.01}


def weights(prefix):
    return {key.removeprefix(prefix): golden(key).clone() for key in GOLDEN.files if key.startswith(prefix)}


def listed(numbers):
    """A noise that gives these numbers one after the other, each once for a whole minibatch."""
    rest = iter(numbers)
    return lambda *shape: torch.as_tensor(next(rest)).expand(shape)


def agent_of(noise, *, official=True, critics=1, one_step=False, lr=5e-4, stored=False):
    """stored: with the golden weights, of a second critic too."""
    seeds = iter(range(1, 9))
    actor, *values = (
        kind(SIZE, HIDDEN, torch.Generator().manual_seed(next(seeds))) for kind in (Actor, *[QNetwork] * critics)
    )
    if stored:
        names = ("rlb_init_actor_local.", "rlb_init_critic1.", "rlb_twin_init_critic2.")
        for network, name in zip((actor, *values), names, strict=False):
            network.load_state_dict(weights(name))
    return SoftActorCritic(
        actor, values, official=official, noise=noise, lr=lr, gamma=0.99, tau=0.01, one_step=one_step
    )


def golden_batch(call):
    names = ("states", "actions", "rewards", "next_states", "dones")
    return Experience(**{name: golden(f"rlb_batch_{name}")[call] for name in names})


def assert_weights(module, prefix, atol):
    for name, expected in weights(prefix).items():
        torch.testing.assert_close(module.state_dict()[name], expected, atol=atol, rtol=0)


@pytest.mark.parametrize("kind", ["default", "twin"])
def test_learning_matches(kind):
    """Four calls. `default`: the one critic here is both of theirs, whose losses are equal."""
    twin = kind == "twin"
    agent = agent_of(listed(GOLDEN["rlb_learn_e"].flatten()), critics=1 + twin, stored=True)
    for call in range(4):
        found = agent.learn(golden_batch(call))
        expected = {
            "q_targets": found["targets"],
            "q1": found["values"][0],
            "q2": found["values"][-1],
            "logpi": found["log_prob"],
            "logpi_next": found["next_log_prob"],
            "critic1_loss": found["critic_losses"][0],
            "critic2_loss": found["critic_losses"][-1],
            "alpha_loss": found["temperature_loss"],
            "actor_loss": found["actor_loss"],
            "temperature_used": found["temperature"],
            "log_temperature_after": agent.log_temperature,
        }
        for name, value in expected.items():
            wanted = golden(f"rlb_learn_{kind}_{name}")[call].float()
            torch.testing.assert_close(value.float().reshape(wanted.shape), wanted, atol=1e-4, rtol=0, msg=name)
        if twin and call in (0, 3):
            networks = {"actor_local": agent.actor}
            networks |= {f"critic{i + 1}": critic for i, critic in enumerate(agent.critics)}
            networks |= {f"critic{i + 1}_target": critic for i, critic in enumerate(agent.slow)}
            for name, network in networks.items():
                assert_weights(network, f"rlb_learn_twin_after{call + 1}_{name}.", 2e-5)


def test_a_learning_step_of_the_textbook_is_the_one_by_hand():
    """Every gradient and Adam's first step written out (which moves each weight by lr * g / (|g| + eps))."""
    noise, lr = torch.randn(2, ROWS, SIZE, generator=torch.Generator().manual_seed(8)), 0.01
    agent, batch = agent_of(listed(noise), official=False, critics=2, lr=lr), golden_batch(0)
    before = {id(p): p.detach().clone() for net in (agent.actor, *agent.critics) for p in net.parameters()}

    def drawn(actor, n):
        mu, log_std = actor
        u = mu + n * log_std.exp()
        density = torch.distributions.Normal(mu, log_std.exp()).log_prob(u)
        return u.tanh(), (density - (1 - u.tanh() ** 2).log()).sum(1, keepdim=True)

    def stepped(loss, network):
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        moved = (
            before[id(p)] - lr * g / (g.abs() + 1e-8) for p, g in zip(network.parameters(), gradients, strict=True)
        )
        return dict(zip(dict(network.named_parameters()), moved, strict=True))

    with torch.no_grad():
        a, logp = drawn(agent.actor(batch.next_states), noise[0])
        after = torch.minimum(*(critic(batch.next_states, a) for critic in agent.critics)) - logp
        targets = batch.rewards + 0.99 * (1 - batch.dones) * after
    losses = [0.5 * (one(batch.states, batch.actions) - targets).square().mean() for one in agent.critics]
    critics = [stepped(loss, critic) for loss, critic in zip(losses, agent.critics, strict=True)]
    a, logp = drawn(agent.actor(batch.states), noise[1])
    values = [functional_call(one, moved, (batch.states, a)) for one, moved in zip(agent.critics, critics, strict=True)]
    loss = (logp - torch.minimum(*values)).mean()
    actor = stepped(loss, agent.actor)

    found = agent.learn(batch)
    torch.testing.assert_close(found["targets"], targets, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found["actor_loss"], loss.detach(), atol=1e-4, rtol=1e-4)
    for network, expected in zip((agent.actor, *agent.critics), (actor, *critics), strict=True):
        for name, p in network.named_parameters():
            torch.testing.assert_close(p.detach(), expected[name].detach(), atol=2e-5, rtol=0)
    direction = math.copysign(1, (logp.mean() - SIZE).item())
    assert agent.log_temperature.item() == pytest.approx(direction * lr, rel=1e-4)


def test_a_replay_forgets_the_oldest():
    kept = Replay(5, 1)
    for number in range(8):
        one = torch.full((1, 1), float(number))
        kept.add(Experience(states=one, actions=one, rewards=one, next_states=one, dones=one))
        assert len(kept) == min(number + 1, 5)
    assert kept.at(torch.arange(5)).rewards.flatten().tolist() == [3, 4, 5, 6, 7]


def blocks(z):
    """The stand-in generator: one number for each block of an image, [N, 192]."""
    return torch.sigmoid(z @ golden("rlb_si_G_A") + golden("si_G_b"))


def target(z):
    features = torch.tanh((blocks(z) - 0.5) @ golden("si_T0_A"))
    return (features @ golden("si_T0_B")).softmax(1)


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
    learner = agent_of(lambda *shape: next(noise).expand(shape), one_step=steps == 1, stored=True)
    asked = []

    def ask(z):
        asked.append(z)
        return target(z)

    draws = Draws(latents=lambda count: next(z_draws)[None], positions=lambda held, count: next(rows))
    settings = RLBMI(episodes=episodes, steps=steps, diversity=diversity, minibatch=ROWS)
    found = Search(ask, learner, label, settings, draws, paper=True).run()
    assert all(next(source, None) is None for source in (noise, z_draws, rows))

    kept = found.replay.at(torch.arange(len(found.replay)))
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
    for network, name in ((learner.actor, "actor_local"), (learner.critics[0], "critic1")):
        assert_weights(network, f"{run}_final_{name}.", 2e-4)


def test_the_official_stream_begins_as_published():
    """torch's CPU generator after an agent of official size with seed 42 is built; the same for every class."""
    learner, draws = learner_of(RLBMI(), 100, 42, 7, paper=True, device="cpu")
    assert torch.equal(draws.latents(1)[0, :8], golden("rlb_seed42_first_z_head"))
    assert learner.noise(1, 1).item() == float(GOLDEN["rlb_seed42_first_e"])
    assert torch.equal(draws.latents(1)[0, :8], golden("rlb_seed42_second_z_head"))


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
    assert view.queries == 60 * per_episode == attack.most_queries(protocol) == found.curves["queries"][-1]
    assert set(found.facts) == set(RLBMI.facts)


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


def searched(confidences, keep=1, *, paper):
    """A search whose roll-outs come to these probabilities of class 0, one after the other; steps ask twice."""
    count = len(confidences)
    more = {"diversity": 0.1, "minibatch": count, "at_once": 1, "selected": keep, "logarithm": "floored"}
    learning = {"agent": "official", "hidden": 4, "lr": 1e-3, "gamma": 0.99, "tau": 0.01}
    settings = SimpleNamespace(episodes=count, steps=1, **more, **learning)
    learner, draws = learner_of(settings, 2, 1, 0, paper=False, device="cpu")
    shown, candidates = [], iter(confidences)

    def ask(z):
        if len(z) == 2:  # a step: state and action
            return torch.full((2, 3), 1 / 3)
        shown.append(z)
        return torch.stack([next(candidates) for _ in z])

    return Search(ask, learner, 0, settings, draws, paper=paper).run(), shown


def test_of_saturated_confidences_the_last_is_kept_officially_and_the_one_with_most_margin_otherwise():
    p = [torch.tensor(row) for row in ([0.9, 0.1, 0.0], [1.0, 1e-30, 0.0], [1.0, 1e-9, 0.0], [0.5, 0.4, 0.1])]
    found, shown = searched(p, 3, paper=True)
    assert torch.equal(found.z, torch.cat(shown)[[2, 1, 0]])
    assert found.confidences.tolist() == pytest.approx([1.0, 1.0, 0.9])
    found, shown = searched(p, 2, paper=False)
    assert torch.equal(found.z, torch.cat(shown)[[1, 2]])
    assert found.margins.tolist() == pytest.approx([30 * math.log(10), 9 * math.log(10)], rel=1e-5)
    found, shown = searched(p[1:2] * 3, paper=False)
    assert torch.equal(found.z, shown[0])  # of equals the first
