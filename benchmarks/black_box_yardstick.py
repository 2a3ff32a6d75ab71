"""RLB-MI and BREP-MI as the official loops go: one class after the other, plain networks, images as they come.

Re-stated from HanGyojin/RLB-MI (SAC.py, attack.py) and the BREP-MI repository (brep_mi.py): the same passes in the same
order, every roll-out and candidate shown by itself, two critics with their copies, a replay that is a list of steps.
Only what is logged alone is left out, and random numbers come from where the caller says.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

from smoothsweep.core.attacks.black_box.soft_actor_critic import Actor, Critic

Logits = Callable[[Tensor], Tensor]
"""Latents [N, D] -> logits [N, C]: generator and target, as they are."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a loop came to on one class: the latent that it leaves, and how many images it showed."""

    z: Tensor
    queries: int


@torch.no_grad()
def brep_class(
    logits: Logits, start: Tensor, label: int, draw: Callable[[], Tensor], *, patience: int, max_passes: int
) -> Run:
    """One walk with the official constants. draw: Gaussian [32, D] for a pass. The end is bounded, as ours is."""
    point, radius, iteration, grown_at, passes, queries = start, 2.0, 0, 0, 0, 0
    while iteration - grown_at < patience and passes < max_passes:
        passes += 1
        step = min(radius / 3, 3)
        noise = draw()
        directions = (radius / torch.sqrt(torch.sum(noise**2, 1, keepdim=True))) * noise
        decisions = torch.where(logits(point + directions).argmax(1) == label, 1, -1)
        grown = bool(decisions.sum() > 0.75 * len(directions))
        if grown:
            radius, grown_at = radius * 1.3, iteration
        direction = torch.mean(((decisions - 1) / 2)[:, None] * directions, 0) / radius
        candidate = (point + step * direction).clamp(-1.5, 1.5)
        queries += len(directions) + 1
        if logits(candidate[None]).argmax(1).item() != label:
            continue
        point = candidate
        logits(candidate[None])  # its score, for the log: a pass that the official code makes and needs not
        iteration += not grown
    return Run(z=point, queries=queries)


class OfficialAgent:
    """Two critics of one seed with their copies, three passes of the policy in each learning step."""

    def __init__(self, size: int, hidden: int, minibatch: int, seed: int) -> None:
        self.minibatch, self.entropy = minibatch, -size
        self.actor = Actor(size, hidden, torch.Generator().manual_seed(seed))
        self.noise = torch.Generator().manual_seed(seed)
        first = Critic(size, hidden, self.noise)
        self.critics = [first, copy.deepcopy(first)]
        self.slow = copy.deepcopy(self.critics)
        self.log_temperature, self.temperature = torch.zeros(1, requires_grad=True), torch.ones(1)
        self.adams = [torch.optim.Adam(one.parameters(), lr=5e-4) for one in (self.actor, *self.critics)]
        self.temperature_adam = torch.optim.Adam([self.log_temperature], lr=5e-4)
        self.replay: list[tuple[Tensor, Tensor, float, Tensor, float]] = []
        self.random = random.Random(seed)

    def act(self, state: Tensor) -> Tensor:
        """An action [1, D] for a state [1, D]."""
        mu, log_std = self.actor(state)
        return torch.tanh(mu + torch.randn((), generator=self.noise) * log_std.exp()).detach()

    def evaluate(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Actions and log probabilities of a minibatch."""
        mu, log_std = self.actor(states)
        std = log_std.exp()
        before = mu + torch.randn((), generator=self.noise) * std
        action = torch.tanh(before)
        log_prob = Normal(mu, std).log_prob(before) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.mean(1, keepdim=True)

    def learn(self) -> None:
        """One learning step on a minibatch of the replay."""
        chosen = self.random.sample(self.replay, self.minibatch)
        states, actions, following = (torch.cat([row[i] for row in chosen]) for i in (0, 1, 3))
        rewards, dones = (torch.tensor([[row[i]] for row in chosen]) for i in (2, 4))
        action, log_prob = self.evaluate(following)
        after = torch.min(*(one(following, action) for one in self.slow))
        targets = rewards + 0.99 * (1 - dones) * (after - self.temperature * log_prob)
        values = [one(states, actions) for one in self.critics]
        for value, adam in zip(values, self.adams[1:], strict=True):
            self._step(adam, 0.5 * F.mse_loss(value, targets.detach()))
        action, log_prob = self.evaluate(states)
        temperature = self.log_temperature.exp()
        self._step(self.temperature_adam, -(self.log_temperature * (log_prob + self.entropy).detach()).mean())
        self.temperature = temperature.detach()
        self._step(self.adams[0], (self.temperature * log_prob - self.critics[0](states, action)).mean())
        for critic, slow in zip(self.critics, self.slow, strict=True):
            for ahead, behind in zip(critic.parameters(), slow.parameters(), strict=True):
                behind.data.copy_(0.01 * ahead.data + 0.99 * behind.data)

    @staticmethod
    def _step(adam: torch.optim.Adam, loss: Tensor) -> None:
        adam.zero_grad()
        loss.backward()
        adam.step()


def rlb_class(logits: Logits, size: int, label: int, *, episodes: int, hidden: int, minibatch: int, seed: int) -> Run:
    """All episodes of one class at diversity 0: three images an episode, each by itself."""
    agent, best, result = OfficialAgent(size, hidden, minibatch, seed), 0.0, None
    for _ in range(episodes):
        state = torch.randn(1, size, generator=agent.noise)
        action = agent.act(state)
        with torch.no_grad():
            of_state, of_action = (F.softmax(logits(action), -1) for _ in range(2))
        others = torch.cat([of_state[0, :label], of_state[0, label + 1 :]])
        margin = math.log(max(1e-7, float(of_state[0, label]) - float(others.max())))
        reward = 2 * float(of_state[0, label].log()) + 2 * float(of_action[0, label].log()) + 8 * margin
        agent.replay.append((state, action, reward, action, 1.0))
        if len(agent.replay) > minibatch:
            agent.learn()
        candidate = agent.act(torch.randn(1, size, generator=agent.noise))
        with torch.no_grad():
            score = float(F.softmax(logits(candidate), -1)[0, label])
        if score >= best:
            best, result = score, candidate
    return Run(z=result, queries=3 * episodes)


def plain(prior: nn.Module, target: nn.Module) -> Logits:
    """Generator and target as they are, in eval mode."""
    return lambda z: target(prior.synthesize(prior.map(z)).clamp(-1, 1))
