"""RLB-MI's search of one class (Han et al., CVPR 2023): a policy proposes latents, probabilities reward them.

HanGyojin/RLB-MI, attack.py (commit 3a113bd). An episode begins at z ~ N(0, I), its state. In each of its `steps` the
policy gives an action a, and the next state is diversity * z + (1 - diversity) * a. The reward of a step is
2 ln p(state image) + 2 ln p(action image) + 8 ln max(1e-7, margin of the state image), p the target's probability of
the class, the margin p less the largest of the others'. After it comes one learning step, once the replay holds more
than a minibatch, and after the episode one more roll-out, whose image is a candidate for the result.

Of the official traps these decide numbers (the learner's stand in core/attacks/black_box/soft_actor_critic.py):

* ln of a softmax that underflowed is -inf. One such reward turns the policy into NaN at the first learning step that
  meets it; the official code goes on, scores NaN and returns the best image found before. Here that ends the search,
  and `died_at` says when. `floored` rewards use the logarithm with a floor.
* With diversity 0 (the default) both images are the same one, and the target is asked twice.
* The best image is the one of highest confidence, which saturates at 1.0: of equals the last is kept.
* The result is sought among the extra roll-outs alone; the images that were learnt from are never considered.

The first three are settings of `SearchVariant`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.soft_actor_critic import Experience, Replay, SoftActorCritic
from smoothsweep.core.attacks.ppa.pool import best_first

FLOOR = -100.0  # nats; a softmax in single precision underflows at about -103
LEAST_MARGIN = 1e-7
WEIGHTS = (2.0, 2.0, 8.0)
CANDIDATE_ROWS = 64  # roll-outs whose images are looked at together: nothing waits for what they come to
CURVE_POINTS = 100
CAPACITY = 10**6  # steps that the replay holds at most

Ask = Callable[[Tensor], Tensor]
"""Latents [N, D] -> the target's probabilities [N, C] of their images, on the CPU."""


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """How episodes run.

    Attributes:
        episodes: Number of episodes.
        steps: Actions of each episode.
        diversity: How much of a state is kept, in [0, 1).
        minibatch: Transitions of a learning step.
        at_once: Episodes that are played at once, for each of whose steps there is one learning step.
    """

    episodes: int
    steps: int
    diversity: float
    minibatch: int
    at_once: int


@dataclass(frozen=True, kw_only=True)
class SearchVariant:
    """Where the official code and a careful one part.

    Attributes:
        floored: Whether rewards have a floor.
        ask_twice: The target is asked about equal images again.
        by_margin: Candidates are ranked by the log margin and of equals the first is kept, not by the confidence and
            the last.
    """

    floored: bool
    ask_twice: bool
    by_margin: bool


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Where random numbers come from.

    Attributes:
        latents: Draws n latents, n -> [n, D].
        positions: (size of the replay, n) -> int64 [n].
    """

    latents: Callable[[int], Tensor]
    positions: Callable[[int, int], Tensor]


@dataclass(kw_only=True)
class SearchResult:
    """What a search came to, best first.

    Attributes:
        z: [k, D]; margins (log margins), confidences: [k].
        best_reward: -inf before the first step.
        learnt: Learning steps that were taken.
        underflows: Images whose probability of the class had no logarithm above the floor.
        died_at: The episode (from 1) in which the policy was found to be NaN, else None.
        curves: Name -> [points]: images asked about (queries), the best confidence of a candidate, the best reward so
            far.
    """

    z: Tensor
    margins: Tensor
    confidences: Tensor
    best_reward: float = -math.inf
    learnt: int = 0
    underflows: int = 0
    died_at: int | None = None
    curves: dict[str, list[float]] = field(default_factory=lambda: {"queries": [], "confidence": [], "reward": []})


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
    """One class's search."""

    def __init__(
        self,
        ask: Ask,
        learner: SoftActorCritic,
        label: int,
        config: Episodes,
        manner: SearchVariant,
        draws: Draws,
        replay: Replay,
        *,
        keep: int,
    ) -> None:
        """replay: empty; keep: how many roll-outs are kept, the best."""
        self._ask, self._learner, self._label, self._draws = ask, learner, label, draws
        self._config, self._manner, self._replay, self._keep = config, manner, replay, keep
        size = learner.actor.mu.out_features
        self._found = SearchResult(z=torch.empty(0, size), margins=torch.empty(0), confidences=torch.empty(0))
        self._waiting: list[Tensor] = []
        self._asked = 0

    def run(self) -> SearchResult:
        """Play all episodes, or as many as there are until the policy is no number any more."""
        total, result = self._config.episodes, self._found
        marks = {math.ceil(total * (point + 1) / CURVE_POINTS) for point in range(CURVE_POINTS)}
        for first in range(0, total, self._config.at_once):
            last = min(first + self._config.at_once, total)
            if not (self._play(last - first) and self._roll_out(last - first)):
                result.died_at = last
                break
            points = sum(first < mark <= last for mark in marks)
            if points or sum(map(len, self._waiting)) >= CANDIDATE_ROWS:
                self._look()
            self._note(points)
        self._look()
        self._note(len(marks) - len(result.curves["queries"]))
        return result

    def _play(self, count: int) -> bool:
        """`count` episodes; whether the policy still gives numbers."""
        config, device = self._config, self._learner.log_temperature.device
        state = self._draws.latents(count).to(device)
        for step in range(config.steps):
            action = self._learner.act(state)
            if not action.isfinite().all():
                return False
            after = self._moved(state, action)
            done = torch.full((count, 1), float(step == config.steps - 1))
            self._replay.add(
                Experience(
                    states=state,
                    actions=action,
                    rewards=self._rewards(after, action)[:, None],
                    next_states=after,
                    dones=done,
                )
            )
            if len(self._replay) > config.minibatch:
                positions = self._draws.positions(len(self._replay), config.minibatch)
                self._learner.learn(self._replay.at(positions))
                self._found.learnt += 1
            state = after
        return True

    def _rewards(self, state: Tensor, action: Tensor) -> Tensor:
        again = self._manner.ask_twice or self._config.diversity > 0
        answers = self._answers(torch.cat([state, action]) if again else state)
        of_state, of_action = answers[: len(state)], answers[-len(action) :]
        _, rewards = scores_of(of_state, of_action, self._label, floored=self._manner.floored)
        self._found.underflows += int((answers[:, self._label].log() <= FLOOR).sum())
        self._found.best_reward = max(self._found.best_reward, float(rewards.max()))
        return rewards

    def _roll_out(self, count: int) -> bool:
        """`count` more roll-outs, to be looked at later; whether the policy still gives numbers."""
        state = self._draws.latents(count).to(self._learner.log_temperature.device)
        for _ in range(self._config.steps):
            state = self._moved(state, self._learner.act(state))
        if not state.isfinite().all():
            return False
        self._waiting.append(state)
        return True

    def _moved(self, state: Tensor, action: Tensor) -> Tensor:
        return self._config.diversity * state + (1 - self._config.diversity) * action

    def _look(self) -> None:
        """Ask about the roll-outs that wait, and keep the best of all."""
        if not self._waiting:
            return
        z, result = torch.cat(self._waiting), self._found
        self._waiting = []
        answers = self._answers(z)
        newer = {"z": z.cpu(), "margins": log_margin(answers, self._label), "confidences": answers[:, self._label]}
        if self._manner.by_margin:
            both = {name: torch.cat([getattr(result, name), value]) for name, value in newer.items()}
        else:  # the last of equals comes first
            both = {name: torch.cat([value.flip(0), getattr(result, name)]) for name, value in newer.items()}
        order = best_first(both["margins" if self._manner.by_margin else "confidences"])[: self._keep]
        for name, value in both.items():
            setattr(result, name, value[order])

    def _answers(self, z: Tensor) -> Tensor:
        self._asked += len(z)
        return self._ask(z)

    def _note(self, points: int) -> None:
        best = float(self._found.confidences.max()) if len(self._found.confidences) else 0.0
        for name, value in (("queries", self._asked), ("confidence", best), ("reward", self._found.best_reward)):
            self._found.curves[name] += [float(value)] * points


def _log(probabilities: Tensor, floored: bool) -> Tensor:
    logarithms = probabilities.log().double()
    return logarithms.clamp_min(FLOOR) if floored else logarithms


def _strongest_other(probabilities: Tensor, label: int) -> Tensor:
    others = probabilities.clone()
    others[:, label] = -1.0
    return others.amax(1)
