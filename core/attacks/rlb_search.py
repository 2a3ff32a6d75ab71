"""RLB-MI's search of one class (Han et al., CVPR 2023): a policy proposes latents, probabilities reward them.

HanGyojin/RLB-MI, attack.py and SAC.py (commit 3a113bd). An episode begins at z ~ N(0, I), its state. In each of its
`steps` the policy gives an action a, and the next state is diversity * z + (1 - diversity) * a. The reward of a step is
2 ln p(state image) + 2 ln p(action image) + 8 ln max(1e-7, margin of the state image), p the target's probability of
the class, the margin p less the largest of the others'. After it comes one learning step, once the replay holds more
than a minibatch, and after the episode one more roll-out, whose image is a candidate for the result.

Of the official traps these decide numbers of the search:

* ln of a softmax that underflowed is -inf. One such reward turns the policy into NaN at the first learning step that
  meets it; the official code goes on, scores NaN and returns the best image found before. Here that ends the search,
  and `died_at` says when. `floored` rewards use the logarithm with a floor.
* With diversity 0 (the default) both images are the same one, and the target is asked twice.
* The best image is the one of highest confidence, which saturates at 1.0: of equals the last is kept.
* The result is sought among the extra roll-outs alone; the images that were learnt from are never considered.

The learner is a soft actor-critic (Haarnoja et al. 2018), an official or a textbook one. Traps of the official one:

* The noise is one number: the same for every dimension and, in a learning step, for every row of the minibatch. A
  policy explores along one line.
* log pi is a mean over the dimensions and the target entropy is -dimensions, so the temperature's gradient never
  changes sign: it falls by one rate in every learning step, whatever the policy does, to exp(-lr * steps).
* Both critics are constructed from the same seed and see the same data, so they are bit-identical and their minimum is
  either of them. One network stands for both here; a textbook's are two.
* The policy climbs the first critic, not the minimum.
* The targets of the critics are computed with the temperature of the learning step before the last one.

Where every episode is one step long (`one_step`), nothing after it counts: the targets are the rewards, so the passes
for the next state and the critics' slow copies, which would be multiplied by 0, are left out.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.seeds import generator

if TYPE_CHECKING:
    from smoothsweep.core.attacks.rlb_mi import RLBMI

FLOOR = -100.0  # nats; a softmax in single precision underflows at about -103
LEAST_MARGIN = 1e-7
WEIGHTS = (2.0, 2.0, 8.0)
CANDIDATE_ROWS = 64  # roll-outs whose images are looked at together: nothing waits for what they come to
CURVE_POINTS = 100
CAPACITY = 10**6  # steps that the replay holds at most
LOG_STD_RANGE = (-20.0, 2.0)
TANH_EPSILON = 1e-6  # inside the official logarithm of the squashing's derivative
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

Ask = Callable[[Tensor], Tensor]
"""Latents [N, D] -> the target's probabilities [N, C] of their images, on the CPU."""

Noise = Callable[..., Tensor]
"""(*shape) -> standard normal numbers of that shape."""


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


class QNetwork(nn.Module):
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


class SoftActorCritic:
    """A policy over actions in (-1, 1)^D that learns from experience."""

    def __init__(
        self,
        actor: Actor,
        critics: Sequence[QNetwork],
        *,
        official: bool,
        noise: Noise,
        lr: float,
        gamma: float,
        tau: float,
        one_step: bool,
    ) -> None:
        """Begin with untrained networks.

        Args:
            official: Whether it has the official traps (the second list of this file's head).
            gamma: Discount of later rewards.
            tau: How fast the critics' slow copies follow, in (0, 1].
            one_step: Whether every episode is one step long.
        """
        self.actor, self.critics, self.official, self.noise = actor, list(critics), official, noise
        self.gamma, self.tau, self.one_step = gamma, tau, one_step
        self.slow = [] if one_step else copy.deepcopy(self.critics)
        size = actor.mu.out_features
        self.target_entropy = -float(size)
        device = actor.mu.weight.device
        self.log_temperature = torch.zeros(1, device=device)
        self._past_temperature = torch.ones(1, device=device)
        self._actor_adam = torch.optim.Adam(actor.parameters(), lr=lr, fused=True)
        self._critic_adams = [torch.optim.Adam(critic.parameters(), lr=lr, fused=True) for critic in self.critics]
        self._temperature_adam = torch.optim.Adam([self.log_temperature], lr=lr, fused=True)

    @torch.no_grad()
    def act(self, states: Tensor) -> Tensor:
        """Actions [N, D] for states [N, D], sampled."""
        mu, log_std = self.actor(states)
        shape = (len(states), 1) if self.official else tuple(states.shape)
        return torch.tanh(mu + self.noise(*shape).to(mu.device) * log_std.exp())

    def sample(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, D] of the policy with gradients, and their log probability [B, 1], as a learning step draws."""
        mu, log_std = self.actor(states)
        noise = self.noise(*(() if self.official else tuple(states.shape))).to(mu.device)
        before = mu + noise * log_std.exp()
        action = torch.tanh(before)
        gaussian = -noise.square() / 2 - log_std - _LOG_SQRT_2PI
        if self.official:
            return action, (gaussian - torch.log(1 - action.square() + TANH_EPSILON)).mean(1, keepdim=True)
        squashing = 2 * (math.log(2) - before - F.softplus(-2 * before))
        return action, (gaussian - squashing).sum(1, keepdim=True)

    def learn(self, batch: Experience) -> dict[str, Tensor | None]:
        """One learning step: the critics, the temperature, the policy, the slow copies.

        Returns what it computed, detached: losses (), that of the critics [critics], and the columns [B, 1] they were
        made of, `values` [critics, B, 1] those of every critic; next_log_prob None where nothing after a step counts.
        """
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
        self._past_temperature = temperature if self.official else self.log_temperature.exp()
        chosen = self.critics[:1] if self.official else self.critics
        actor_loss = (temperature * log_prob - _lowest(chosen, batch.states, action)).mean()
        _descend(self._actor_adam, actor_loss, list(self.actor.parameters()))
        with torch.no_grad():
            for critic, slow in zip(self.critics if self.slow else [], self.slow, strict=True):
                for ahead, behind in zip(critic.parameters(), slow.parameters(), strict=True):
                    behind.copy_(self.tau * ahead + (1 - self.tau) * behind)
        return {
            "targets": targets,
            "values": torch.stack(values),
            "critic_losses": torch.stack(losses),
            "temperature_loss": temperature_loss,
            "actor_loss": actor_loss.detach(),
            "log_prob": log_prob.detach(),
            "next_log_prob": next_log_prob,
            "temperature": temperature,
        }

    @torch.no_grad()
    def _targets(self, batch: Experience) -> tuple[Tensor, Tensor | None]:
        if self.one_step:
            if self.official:
                self.noise()  # the official code draws it, so what is drawn after it is the same
            return batch.rewards, None
        action, log_prob = self.sample(batch.next_states)
        after = _lowest(self.slow, batch.next_states, action) - self._past_temperature * log_prob
        return batch.rewards + self.gamma * (1 - batch.dones) * after, log_prob


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


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Where random numbers come from.

    Attributes:
        latents: Draws n latents, n -> [n, D].
        positions: (size of the replay, n) -> int64 [n].
    """

    latents: Callable[[int], Tensor]
    positions: Callable[[int, int], Tensor]


def learner_of(
    settings: RLBMI, size: int, seed: int, target_class: int, *, paper: bool, device: torch.device | str
) -> tuple[SoftActorCritic, Draws]:
    """A learner whose every number depends on the seed and the class; of `paper` alike for every class.

    There each network is drawn from the seed itself, and the noise goes on from there. On the CPU these are the
    official numbers, one by one (SAC.py lines 40, 69, 106, 138, 300; attack.py lines 20, 53): every constructor
    reseeds torch's generator, the last of them a critic's, and Python's own draws the positions in the replay. A
    textbook agent's second critic, which the official code does not have, is drawn from a seed of its own.

    size: of a latent.
    """
    official = settings.agent == "official"
    numbers = range(1 if official else 2)
    if paper:
        noise = latents = torch.Generator().manual_seed(seed)
        for_actor = torch.Generator().manual_seed(seed)
        for_critics = [generator(seed, "critic", number) if number else noise for number in numbers]
        python = random.Random(seed)

        def positions(held: int, count: int) -> Tensor:
            return torch.tensor(python.sample(range(held), count))

    else:
        for_actor, noise, latents, chosen = (
            generator(seed, target_class, name) for name in ("actor", "noise", "latents", "positions")
        )
        for_critics = [generator(seed, target_class, "critic", number) for number in numbers]

        def positions(held: int, count: int) -> Tensor:
            return torch.randint(held, (count,), generator=chosen)

    critics = [QNetwork(size, settings.hidden, source).to(device) for source in for_critics]
    learner = SoftActorCritic(
        Actor(size, settings.hidden, for_actor).to(device),
        critics,
        official=official,
        noise=lambda *shape: torch.randn(shape, generator=noise),
        lr=settings.lr,
        gamma=settings.gamma,
        tau=settings.tau,
        one_step=settings.steps == 1,
    )
    return learner, Draws(latents=lambda count: torch.randn(count, size, generator=latents), positions=positions)


def scores_of(state: Tensor, action: Tensor, label: int, *, floored: bool) -> tuple[Tensor, Tensor]:
    """The three scores [N, 3] and the rewards [N] of steps, float64.

    state, action: the target's probabilities [N, C] of the state images and the action images.
    """
    first, second = (_log(p[:, label], floored) for p in (state, action))
    margin = state[:, label].double() - _strongest_other(state, label).double()
    scores = torch.stack([first, second, margin.clamp_min(LEAST_MARGIN).log()], 1)
    return scores, (scores * torch.tensor(WEIGHTS, dtype=torch.float64)).sum(1)


def log_margin(probabilities: Tensor, label: int) -> Tensor:
    """ln p(label) less the largest of the others, [N], of probabilities [N, C]: the logit margin, but for the floor.

    It tells images apart that all have a confidence of 1.0, for an underflow is far below the step next to 1.
    """
    return _log(probabilities[:, label], True) - _log(_strongest_other(probabilities, label), True)


class Search:
    """One class's search, and what it came to, best first.

    Attributes:
        z: [k, D]; margins (log margins), confidences: [k].
        best_reward: -inf before the first step.
        learnt: Learning steps that were taken.
        underflows: Images whose probability of the class had no logarithm above the floor.
        died_at: The episode (from 1) in which the policy was found to be NaN, else None.
        curves: Name -> [points]: images asked about (queries), the best confidence of a candidate, the best reward so
            far.
        replay: The steps that were learnt from.
    """

    def __init__(
        self, ask: Ask, learner: SoftActorCritic, label: int, settings: RLBMI, draws: Draws, *, paper: bool
    ) -> None:
        """paper: search as the official code does (the first traps of this file's head), else as a careful one."""
        self._ask, self._learner, self._label, self._settings, self._draws = ask, learner, label, settings, draws
        self._paper = paper
        self._floored = (settings.logarithm or ("official" if paper else "floored")) == "floored"
        size = learner.actor.mu.out_features
        self._device = learner.log_temperature.device
        self.replay = Replay(min(CAPACITY, settings.episodes * settings.steps), size, self._device)
        self.z, self.margins, self.confidences = torch.empty(0, size), torch.empty(0), torch.empty(0)
        self.best_reward, self.learnt, self.underflows = -math.inf, 0, 0
        self.died_at: int | None = None
        self.curves: dict[str, list[float]] = {"queries": [], "confidence": [], "reward": []}
        self._waiting: list[Tensor] = []
        self._asked = 0

    def run(self) -> Search:
        """Play all episodes, or as many as there are until the policy is no number any more."""
        total, at_once = self._settings.episodes, self._settings.at_once
        marks = {math.ceil(total * (point + 1) / CURVE_POINTS) for point in range(CURVE_POINTS)}
        for first in range(0, total, at_once):
            last = min(first + at_once, total)
            if not (self._play(last - first) and self._roll_out(last - first)):
                self.died_at = last
                break
            points = sum(first < mark <= last for mark in marks)
            if points or sum(map(len, self._waiting)) >= CANDIDATE_ROWS:
                self._look()
            self._note(points)
        self._look()
        self._note(len(marks) - len(self.curves["queries"]))
        return self

    def _play(self, count: int) -> bool:
        """`count` episodes; whether the policy still gives numbers."""
        settings = self._settings
        state = self._draws.latents(count).to(self._device)
        for step in range(settings.steps):
            action = self._learner.act(state)
            if not action.isfinite().all():
                return False
            after = self._moved(state, action)
            done = torch.full((count, 1), float(step == settings.steps - 1))
            rewards = self._rewards(after, action)[:, None]
            self.replay.add(Experience(states=state, actions=action, rewards=rewards, next_states=after, dones=done))
            if len(self.replay) > settings.minibatch:
                positions = self._draws.positions(len(self.replay), settings.minibatch)
                self._learner.learn(self.replay.at(positions))
                self.learnt += 1
            state = after
        return True

    def _rewards(self, state: Tensor, action: Tensor) -> Tensor:
        again = self._paper or self._settings.diversity > 0
        answers = self._answers(torch.cat([state, action]) if again else state)
        of_state, of_action = answers[: len(state)], answers[-len(action) :]
        _, rewards = scores_of(of_state, of_action, self._label, floored=self._floored)
        self.underflows += int((answers[:, self._label].log() <= FLOOR).sum())
        self.best_reward = max(self.best_reward, float(rewards.max()))
        return rewards

    def _roll_out(self, count: int) -> bool:
        """`count` more roll-outs, to be looked at later; whether the policy still gives numbers."""
        state = self._draws.latents(count).to(self._device)
        for _ in range(self._settings.steps):
            state = self._moved(state, self._learner.act(state))
        if not state.isfinite().all():
            return False
        self._waiting.append(state)
        return True

    def _moved(self, state: Tensor, action: Tensor) -> Tensor:
        return self._settings.diversity * state + (1 - self._settings.diversity) * action

    def _look(self) -> None:
        """Ask about the roll-outs that wait, and keep the best of all: by their log margin, of equals the first; as
        officially by the confidence, of equals the last."""
        if not self._waiting:
            return
        z = torch.cat(self._waiting)
        self._waiting = []
        answers = self._answers(z)
        newer = {"z": z.cpu(), "margins": log_margin(answers, self._label), "confidences": answers[:, self._label]}
        both = {
            name: torch.cat([value.flip(0), getattr(self, name)] if self._paper else [getattr(self, name), value])
            for name, value in newer.items()
        }
        order = best_first(both["confidences" if self._paper else "margins"])[: self._settings.selected]
        for name, value in both.items():
            setattr(self, name, value[order])

    def _answers(self, z: Tensor) -> Tensor:
        self._asked += len(z)
        return self._ask(z)

    def _note(self, points: int) -> None:
        best = float(self.confidences.max()) if len(self.confidences) else 0.0
        for name, value in (("queries", self._asked), ("confidence", best), ("reward", self.best_reward)):
            self.curves[name] += [float(value)] * points


def _log(probabilities: Tensor, floored: bool) -> Tensor:
    logarithms = probabilities.log().double()
    return logarithms.clamp_min(FLOOR) if floored else logarithms


def _strongest_other(probabilities: Tensor, label: int) -> Tensor:
    others = probabilities.clone()
    others[:, label] = -1.0
    return others.amax(1)


def _lowest(critics: Sequence[QNetwork], states: Tensor, actions: Tensor) -> Tensor:
    values = [critic(states, actions) for critic in critics]
    return values[0] if len(values) == 1 else torch.stack(values).amin(0)


def _descend(adam: torch.optim.Adam, loss: Tensor, parameters: list[Tensor]) -> None:
    # Gradients of these parameters alone: the policy's loss runs through a critic, whose own are not wanted.
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    adam.step()
