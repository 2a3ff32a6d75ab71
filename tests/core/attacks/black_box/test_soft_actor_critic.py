"""Soft actor-critic against values of the official code (tests/golden/black_box.npz), and against a step by hand."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.func import functional_call

from smoothsweep.core.attacks.black_box.soft_actor_critic import (
    OFFICIAL,
    TEXTBOOK,
    Actor,
    Critic,
    Experience,
    Replay,
    SoftActorCritic,
    open_loop_temperature,
)

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "black_box.npz")
SIZE, HIDDEN, ROWS = 6, 16, 8


def golden(name):
    return torch.from_numpy(np.asarray(GOLDEN[name]))


def weights(prefix):
    return {key.removeprefix(prefix): golden(key).clone() for key in GOLDEN.files if key.startswith(prefix)}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def listed(numbers: Iterable[float]):
    """A noise that gives these numbers one after the other, each once for a whole minibatch."""
    rest = iter(numbers)
    return lambda *shape: torch.as_tensor(next(rest)).expand(shape)


def agent_of(rules, noise, *, critics=1, one_step=False, lr=5e-4):
    agents = Actor(SIZE, HIDDEN, seeded(1)), [Critic(SIZE, HIDDEN, seeded(2 + i)) for i in range(critics)]
    return SoftActorCritic(*agents, rules, noise=noise, lr=lr, gamma=0.99, tau=0.01, one_step=one_step)


def official_agent(noise, *, twin=False, one_step=False):
    """The golden agent; twin: its second critic has weights of its own."""
    actor, first = Actor(SIZE, HIDDEN, seeded()), Critic(SIZE, HIDDEN, seeded())
    actor.load_state_dict(weights("rlb_init_actor_local."))
    first.load_state_dict(weights("rlb_init_critic1."))
    critics = [first]
    if twin:
        critics.append(Critic(SIZE, HIDDEN, seeded()))
        critics[1].load_state_dict(weights("rlb_twin_init_critic2."))
    return SoftActorCritic(actor, critics, OFFICIAL, noise=noise, lr=5e-4, gamma=0.99, tau=0.01, one_step=one_step)


def golden_batch(call):
    names = ("states", "actions", "rewards", "next_states", "dones")
    return Experience(**{name: golden(f"rlb_batch_{name}")[call] for name in names})


def assert_weights(module, prefix, atol):
    for name, expected in weights(prefix).items():
        torch.testing.assert_close(module.state_dict()[name], expected, atol=atol, rtol=0)


def test_a_policy_matches():
    first, second = GOLDEN["rlb_actor_e"]
    agent, states = official_agent(listed([first, second])), golden("rlb_actor_states")
    mu, log_std = agent.actor(states)
    action, log_prob = agent.sample(states)
    for found, name in ((mu, "mu"), (log_std, "logstd"), (action, "action"), (log_prob, "logprob")):
        torch.testing.assert_close(found.detach(), golden(f"rlb_actor_{name}"), atol=1e-5, rtol=0)
    torch.testing.assert_close(agent.act(states[:1])[0], golden("rlb_actor_get_action_first"), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["default", "twin"])
def test_learning_matches(kind):
    """Four calls. `default`: the one critic here is both of theirs, whose losses are equal."""
    twin = kind == "twin"
    agent = official_agent(listed(GOLDEN["rlb_learn_e"].flatten()), twin=twin)
    for call in range(4):
        found = agent.learn(golden_batch(call))
        expected = {
            "q_targets": found.targets,
            "q1": found.values[0],
            "q2": found.values[-1],
            "logpi": found.log_prob,
            "logpi_next": found.next_log_prob,
            "critic1_loss": found.critic_losses[0],
            "critic2_loss": found.critic_losses[-1],
            "alpha_loss": found.temperature_loss,
            "actor_loss": found.actor_loss,
            "temperature_used": found.temperature,
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


def noise_of(seed):
    source = seeded(seed)
    return lambda *shape: torch.randn(shape, generator=source)


def test_the_official_temperature_falls_by_the_learning_rate_whatever_happens():
    agent = agent_of(OFFICIAL, noise_of(2), one_step=True)
    states = torch.randn(300, SIZE, generator=seeded(3))
    for call in range(244):
        rows = torch.arange(ROWS) + call % 200
        rewards = torch.randn(ROWS, 1, generator=seeded(call))
        agent.learn(
            Experience(
                states=states[rows],
                actions=states[rows].tanh(),
                rewards=rewards,
                next_states=states[rows],
                dones=torch.ones(ROWS, 1),
            )
        )
        found = agent.log_temperature.exp().item()
        assert found == pytest.approx(open_loop_temperature(call + 1, 5e-4), abs=1e-4)
    assert found == pytest.approx(0.886, abs=1e-3)  # episode 500: learning begins after 256
    assert open_loop_temperature(1000 - 256, 5e-4) == pytest.approx(0.690, abs=1e-3)


def test_one_step_episodes_need_nothing_after_them():
    """The same numbers as with the passes for the next state, which are multiplied by 0, and the same stream."""
    found = []
    for one_step in (True, False):
        agent = agent_of(OFFICIAL, noise_of(2), one_step=one_step)
        for call in range(3):
            batch = golden_batch(call)
            agent.learn(Experience(**{**vars(batch), "dones": torch.ones(ROWS, 1)}))
        found.append([*agent.actor.parameters(), *agent.critics[0].parameters(), agent.log_temperature, agent.noise()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("rules", [OFFICIAL, TEXTBOOK], ids=["official", "textbook"])
def test_a_learning_step_is_the_one_by_hand(rules):
    """Every gradient and Adam's first step written out (which moves each weight by lr * g / (|g| + eps))."""
    noise, lr = torch.randn(2, ROWS, SIZE, generator=seeded(8)), 0.01
    drawn = iter([n[0, 0] if rules.scalar_noise else n for n in noise])
    agent = agent_of(rules, lambda *shape: next(drawn), critics=2, lr=lr)
    batch = golden_batch(0)
    before = {id(p): p.detach().clone() for net in (agent.actor, *agent.critics) for p in net.parameters()}

    def by_hand(actor, n):
        mu, log_std = actor
        u = mu + n * log_std.exp()
        a = u.tanh()
        density = torch.distributions.Normal(mu, log_std.exp()).log_prob(u)
        if rules.mean_log_prob:
            return a, (density - (1 - a**2 + 1e-6).log()).mean(1, keepdim=True)
        return a, (density - (1 - a**2).log()).sum(1, keepdim=True)

    pick = (lambda n: n[0, 0]) if rules.scalar_noise else (lambda n: n)
    with torch.no_grad():
        a, logp = by_hand(agent.actor(batch.next_states), pick(noise[0]))
        after = torch.minimum(*(critic(batch.next_states, a) for critic in agent.critics)) - 1.0 * logp
        targets = batch.rewards + 0.99 * (1 - batch.dones) * after
    expected = {}
    for critic in agent.critics:
        loss = 0.5 * (critic(batch.states, batch.actions) - targets).square().mean()
        for p, g in zip(critic.parameters(), torch.autograd.grad(loss, list(critic.parameters())), strict=True):
            expected[id(p)] = before[id(p)] - lr * g / (g.abs() + 1e-8)
    slow = [[0.01 * expected[id(p)] + 0.99 * before[id(p)] for p in critic.parameters()] for critic in agent.critics]
    named = [{n: expected[id(p)] for n, p in critic.named_parameters()} for critic in agent.critics]
    a, logp = by_hand(agent.actor(batch.states), pick(noise[1]))
    values = [functional_call(one, moved, (batch.states, a)) for one, moved in zip(agent.critics, named, strict=True)]
    climbed = torch.minimum(*values) if rules.climbs_minimum else values[0]
    loss = (1.0 * logp - climbed).mean()
    for p, g in zip(agent.actor.parameters(), torch.autograd.grad(loss, list(agent.actor.parameters())), strict=True):
        expected[id(p)] = before[id(p)] - lr * g / (g.abs() + 1e-8)

    found = agent.learn(batch)
    torch.testing.assert_close(found.targets, targets, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.actor_loss, loss.detach(), atol=1e-4, rtol=1e-4)
    for network in (agent.actor, *agent.critics):
        for p in network.parameters():
            torch.testing.assert_close(p.detach(), expected[id(p)], atol=2e-5, rtol=0)
    for critic, values in zip(agent.slow, slow, strict=True):
        for p, value in zip(critic.parameters(), values, strict=True):
            torch.testing.assert_close(p.detach(), value, atol=2e-5, rtol=0)
    direction = math.copysign(1, (logp.mean() - SIZE).item())
    assert agent.log_temperature.item() == pytest.approx(direction * lr, rel=1e-4)


def test_a_replay_forgets_the_oldest():
    kept = Replay(5, 1)
    for number in range(8):
        one = torch.full((1, 1), float(number))
        kept.add(Experience(states=one, actions=one, rewards=one, next_states=one, dones=one))
        assert len(kept) == min(number + 1, 5)
    assert kept.at(torch.arange(5)).rewards.flatten().tolist() == [3, 4, 5, 6, 7]
