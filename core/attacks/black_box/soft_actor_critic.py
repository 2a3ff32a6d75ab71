"""Soft actor-critic (Haarnoja et al. 2018) over latents: as RLB-MI's official code has it, and as the textbook has it.

Official is HanGyojin/RLB-MI, SAC.py (commit 3a113bd). Its traps, all kept by `OFFICIAL`:

* The noise is one number: the same for every dimension and, in a learning step, for every row of the minibatch. A
  policy explores along one line.
* log pi is a mean over the dimensions and the target entropy is -dimensions, so the temperature's gradient never
  changes sign: it falls by one rate in every learning step, whatever the policy does (`open_loop_temperature`).
* Both critics are constructed from the same seed and see the same data, so they are bit-identical and their minimum is
  either of them. One network stands for both here; `critics` may hold two.
* The policy climbs the first critic, not the minimum.
* The targets of the critics are computed with the temperature of the learning step before the last one.

Where every episode is one step long (`one_step`), nothing after it counts: the targets are the rewards, so the passes
for the next state and the critics' slow copies, which would be multiplied by 0, are left out.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOG_STD_RANGE = (-20.0, 2.0)
TANH_EPSILON = 1e-6  # inside the official logarithm of the squashing's derivative
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

Noise = Callable[..., Tensor]
"""(*shape) -> standard normal numbers of that shape."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the official code and the textbook do differently; the head of this file says how."""

    scalar_noise: bool
    mean_log_prob: bool
    climbs_minimum: bool
    lagging_temperature: bool
    critics: int


OFFICIAL = Rules(scalar_noise=True, mean_log_prob=True, climbs_minimum=False, lagging_temperature=True, critics=1)
TEXTBOOK = Rules(scalar_noise=False, mean_log_prob=False, climbs_minimum=True, lagging_temperature=False, critics=2)
RULES = {"official": OFFICIAL, "textbook": TEXTBOOK}


@dataclass(frozen=True, kw_only=True)
class Experience:
    """Steps that were made.

    Attributes:
        states, actions, next_states: [B, D].
        rewards, dones: [B, 1], dones 0 or 1.
    """

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    dones: Tensor


@dataclass(frozen=True, kw_only=True)
class Update:
    """What one learning step computed, detached: losses () and the columns [B, 1] they were made of.

    Attributes:
        temperature: The one the policy's loss was weighed with.
        values: The values of every critic.
        next_log_prob: None where nothing after a step counts.
    """

    targets: Tensor
    values: tuple[Tensor, ...]
    critic_losses: tuple[Tensor, ...]
    temperature_loss: Tensor
    actor_loss: Tensor
    log_prob: Tensor
    next_log_prob: Tensor | None
    temperature: Tensor


class Actor(nn.Module):
    """States [B, D] -> mean and log standard deviation [B, D] of the policy before its tanh."""

    def __init__(self, size: int, hidden: int, source: torch.Generator) -> None:
        """size: D; source: every weight is drawn from it, in torch's usual way."""
        super().__init__()
        self.fc1, self.fc2 = linear(size, hidden, source), linear(hidden, hidden, source)
        self.mu, self.log_std_linear = linear(hidden, size, source), linear(hidden, size, source)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.relu(self.fc2(F.relu(self.fc1(states))))
        return self.mu(hidden), self.log_std_linear(hidden).clamp(*LOG_STD_RANGE)


class Critic(nn.Module):
    """States and actions [B, D] -> values [B, 1]."""

    def __init__(self, size: int, hidden: int, source: torch.Generator) -> None:
        """The official initial weights: uniform, within 1 / sqrt(outputs) (not inputs), the last within 0.003."""
        super().__init__()
        self.fc1, self.fc2 = linear(2 * size, hidden, source), linear(hidden, hidden, source)
        self.fc3 = linear(hidden, 1, source)
        with torch.no_grad():
            for layer in (self.fc1, self.fc2):
                bound = 1 / math.sqrt(layer.weight.shape[0])
                layer.weight.uniform_(-bound, bound, generator=source)
            self.fc3.weight.uniform_(-3e-3, 3e-3, generator=source)

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.cat([states, actions], 1))))))


def linear(inputs: int, outputs: int, source: torch.Generator) -> nn.Linear:
    """A linear layer with torch's default weights, drawn from `source`."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=source)
    bound = 1 / math.sqrt(inputs)
    nn.init.uniform_(layer.bias, -bound, bound, generator=source)
    return layer


def open_loop_temperature(steps: int, lr: float) -> float:
    """The official temperature after so many learning steps: exp(-lr * steps)."""
    return math.exp(-lr * steps)


class SoftActorCritic:
    """A policy over actions in (-1, 1)^D that learns from experience."""

    def __init__(
        self,
        actor: Actor,
        critics: Sequence[Critic],
        rules: Rules,
        *,
        noise: Noise,
        lr: float,
        gamma: float,
        tau: float,
        one_step: bool,
    ) -> None:
        """Begin with untrained networks.

        Args:
            gamma: Discount of later rewards.
            tau: How fast the critics' slow copies follow, in (0, 1].
            one_step: Whether every episode is one step long.
        """
        self.actor, self.critics, self.rules, self.noise = actor, list(critics), rules, noise
        self.gamma, self.tau, self.one_step = gamma, tau, one_step
        self.slow = [] if one_step else copy.deepcopy(self.critics)
        size = actor.mu.out_features
        self.target_entropy = -float(size)
        device = actor.mu.weight.device
        self.log_temperature = torch.zeros(1, device=device)
        self._past_temperature = torch.ones(1, device=device)
        self._actor_adam = _adam(list(actor.parameters()), lr)
        self._critic_adams = [_adam(list(critic.parameters()), lr) for critic in self.critics]
        self._temperature_adam = _adam([self.log_temperature], lr)

    @torch.no_grad()
    def act(self, states: Tensor) -> Tensor:
        """Actions [N, D] for states [N, D], sampled."""
        mu, log_std = self.actor(states)
        shape = (len(states), 1) if self.rules.scalar_noise else tuple(states.shape)
        return torch.tanh(mu + self.noise(*shape).to(mu.device) * log_std.exp())

    def sample(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, D] of the policy with gradients, and their log probability [B, 1], as a learning step draws."""
        mu, log_std = self.actor(states)
        noise = self.noise(*(() if self.rules.scalar_noise else tuple(states.shape))).to(mu.device)
        before = mu + noise * log_std.exp()
        action = torch.tanh(before)
        gaussian = -noise.square() / 2 - log_std - _LOG_SQRT_2PI
        if self.rules.mean_log_prob:
            return action, (gaussian - torch.log(1 - action.square() + TANH_EPSILON)).mean(1, keepdim=True)
        squashing = 2 * (math.log(2) - before - F.softplus(-2 * before))
        return action, (gaussian - squashing).sum(1, keepdim=True)

    def learn(self, batch: Experience) -> Update:
        """One learning step: the critics, the temperature, the policy, the slow copies."""
        targets, next_log_prob = self._targets(batch)
        values, losses = [], []
        for critic, adam in zip(self.critics, self._critic_adams, strict=True):
            value = critic(batch.states, batch.actions)
            loss = 0.5 * F.mse_loss(value, targets)
            _descend(adam, loss, list(critic.parameters()))
            values.append(value.detach())
            losses.append(loss.detach())
        action, log_prob = self.sample(batch.states)
        temperature = self.log_temperature.exp()
        gap = (log_prob.detach() + self.target_entropy).mean()
        temperature_loss = -self.log_temperature * gap
        self.log_temperature.grad = -gap.view(1)
        self._temperature_adam.step()
        self._past_temperature = temperature if self.rules.lagging_temperature else self.log_temperature.exp()
        chosen = self.critics if self.rules.climbs_minimum else self.critics[:1]
        actor_loss = (temperature * log_prob - _lowest(chosen, batch.states, action)).mean()
        _descend(self._actor_adam, actor_loss, list(self.actor.parameters()))
        self._follow()
        return Update(
            targets=targets,
            values=tuple(values),
            critic_losses=tuple(losses),
            temperature_loss=temperature_loss,
            actor_loss=actor_loss.detach(),
            log_prob=log_prob.detach(),
            next_log_prob=next_log_prob,
            temperature=temperature,
        )

    @torch.no_grad()
    def _targets(self, batch: Experience) -> tuple[Tensor, Tensor | None]:
        if self.one_step:
            if self.rules.scalar_noise:
                self.noise()  # the official code draws it, so what is drawn after it is the same
            return batch.rewards, None
        action, log_prob = self.sample(batch.next_states)
        after = _lowest(self.slow, batch.next_states, action) - self._past_temperature * log_prob
        return batch.rewards + self.gamma * (1 - batch.dones) * after, log_prob

    @torch.no_grad()
    def _follow(self) -> None:
        for critic, slow in zip(self.critics if self.slow else [], self.slow, strict=True):
            for ahead, behind in zip(critic.parameters(), slow.parameters(), strict=True):
                behind.copy_(self.tau * ahead + (1 - self.tau) * behind)


class Replay:
    """The last `capacity` steps, the oldest first."""

    def __init__(self, capacity: int, size: int, device: torch.device | str = "cpu") -> None:
        """size: D."""
        widths = {"states": size, "actions": size, "rewards": 1, "next_states": size, "dones": 1}
        self._kept = {name: torch.empty(capacity, width, device=device) for name, width in widths.items()}
        self._capacity, self._added = capacity, 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(self, steps: Experience) -> None:
        """Keep these steps; beyond the capacity the oldest are forgotten."""
        rows = torch.arange(self._added, self._added + len(steps.states)) % self._capacity
        for name, buffer in self._kept.items():
            buffer[rows] = getattr(steps, name).to(buffer)
        self._added += len(steps.states)

    def at(self, positions: Tensor) -> Experience:
        """The steps at these positions, int64 [B], counted from the oldest."""
        rows = (positions + max(0, self._added - self._capacity)) % self._capacity
        return Experience(**{name: buffer[rows] for name, buffer in self._kept.items()})


def _lowest(critics: Sequence[Critic], states: Tensor, actions: Tensor) -> Tensor:
    values = [critic(states, actions) for critic in critics]
    return values[0] if len(values) == 1 else torch.stack(values).amin(0)


def _adam(parameters: list[Tensor], lr: float) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=lr, fused=True)


def _descend(adam: torch.optim.Adam, loss: Tensor, parameters: list[Tensor]) -> None:
    # Gradients of these parameters alone: the policy's loss runs through a critic, whose own are not wanted.
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    adam.step()
