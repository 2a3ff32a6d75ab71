"""The paper's example in two dimensions: why smoothing helps or hinders an inversion (section 3).

It is behind Figs. 1 and 8. Three classes of points, a small network trained under a constant smoothing
factor, and a point that climbs towards high confidence in another class. Follows
notebooks/label_smoothing_toy_example.ipynb of LukasStruppek/Plug-and-Play-Attacks to the digit: 763, 3113 and
53 steps for factors 0, 0.05 and -0.05. Everything is float32 on the CPU; the results are arrays for the
caller to draw.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothsweep.core.defenses.base import smoothed_cross_entropy
from smoothsweep.core.errors import TrainingDiverged

TARGET_CLASS = 2
ATTACK_START = (-3.0, -10.0)
STOP_AT = 0.95
MAX_STEPS = 10_000
NO_STOP_STEPS = 5_000
GRID_LIMIT, GRID = 15.0, 100  # the map goes so far on both axes, in so many steps


@dataclass(frozen=True, kw_only=True)
class ToyAttack:
    """One climb towards the target class.

    Attributes:
        path: float32 [steps + 2, 2], the start and every update.
        steps: Zero-based index of the last update.
        distance: Euclidean, from the end of the path to the nearest training point of the target class.
        stopped: Whether the confidence was reached; False also when there was no such criterion.
    """

    path: Tensor
    steps: int
    distance: float
    stopped: bool


@dataclass(frozen=True, kw_only=True)
class ToyResult:
    """All there is to draw for one smoothing factor.

    Attributes:
        points: float32 [500, 2] with labels int64 [500].
        axis: float32 [G], the grid's coordinates on both axes.
        confidence: float32 [G, G], largest softmax probability, row = second coordinate.
        prediction: int64 [G, G].
        attack: The climb that stops at a confidence (Fig. 1).
        endless: The one that does not (Fig. 8), None if it was not asked for.
        train_loss: Loss of the full data, train-mode batch norm, after the last update.
    """

    alpha: float
    train_loss: float
    points: Tensor
    labels: Tensor
    axis: Tensor
    confidence: Tensor
    prediction: Tensor
    attack: ToyAttack
    endless: ToyAttack | None


@contextmanager
def _one_thread() -> Generator[None]:
    """One thread inside: a second one costs time on tensors this small, and the last digits depend on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def make_blobs_data() -> tuple[Tensor, Tensor]:
    """The 500 points (float32 [500, 2]) and their classes (int64 [500]): three round clouds."""
    from sklearn.datasets import make_blobs

    centres = [(0, -10), (-10, 10), (10, 10)]
    points, labels = make_blobs(n_samples=500, centers=centres, cluster_std=1.6, random_state=17)
    return torch.from_numpy(points).float(), torch.from_numpy(labels).long()


def build_toy_net(*, seed: int = 42) -> nn.Sequential:
    """Linear, batch norm, ReLU twice with 20 neurons, then a linear layer to 3 logits without bias.

    Initialised from `seed` by torch's own rules; the global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(2, 20),
            nn.BatchNorm1d(20),
            nn.ReLU(),
            nn.Linear(20, 20),
            nn.BatchNorm1d(20),
            nn.ReLU(),
            nn.Linear(20, 3, bias=False),
        )


@_one_thread()
def train_toy(alpha: float, *, steps: int = 5000, seed: int = 42) -> tuple[nn.Sequential, float]:
    """The trained network in eval mode, and its final loss. SGD on all points at once, 0.001, momentum 0.9.

    alpha: smoothing factor, at most 1, the same in every step: the example has no schedule. The loss is taken
    in train mode after the last update. Raises TrainingDiverged if it is not finite.
    """
    points, labels = make_blobs_data()
    net = build_toy_net(seed=seed)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        smoothed_cross_entropy(net(points), labels, alpha).backward()
        optimiser.step()
    with torch.no_grad():  # on a copy: train mode moves the running statistics, and with them the attack
        final = smoothed_cross_entropy(copy.deepcopy(net)(points), labels, alpha).item()
    if not math.isfinite(final):
        raise TrainingDiverged(f"toy example: loss {final} after {steps} steps under alpha {alpha:g}")
    return net.eval(), final


@_one_thread()
def attack_toy(
    net: nn.Module,
    *,
    start: tuple[float, float] = ATTACK_START,
    target: int = TARGET_CLASS,
    stop_at: float | None = STOP_AT,
    max_steps: int = MAX_STEPS,
    lr: float = 0.1,
) -> ToyAttack:
    """Moves a point by plain gradient descent on the cross entropy of `target`.

    Args:
        net: The classifier, in eval mode.
        stop_at: Stop after the first update whose confidence beforehand exceeded this; None: never.
        max_steps: Updates at most, at least 1.

    The nearest point is looked for among `make_blobs_data`.
    """
    point = torch.tensor([start], requires_grad=True)
    goal = torch.tensor([target])
    path, stopped = [point.detach().clone()], False
    for _ in range(max_steps):
        logits = net(point)
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, goal), point)
        with torch.no_grad():
            point -= lr * gradient
            path.append(point.detach().clone())
            stopped = stop_at is not None and logits.softmax(dim=1)[0, target].item() > stop_at
        if stopped:
            break
    points, labels = make_blobs_data()
    distance = torch.linalg.norm(points[labels == target] - path[-1], dim=1).min().item()
    return ToyAttack(path=torch.cat(path), steps=len(path) - 2, distance=distance, stopped=stopped)


@_one_thread()
def run_toy(alpha: float, *, endless_steps: int | None = NO_STOP_STEPS) -> ToyResult:
    """The whole example for one smoothing factor: train, attack, attack without stopping, map from -15 to 15.

    endless_steps: updates of the attack without a criterion; None leaves it out.
    """
    points, labels = make_blobs_data()
    net, train_loss = train_toy(alpha)
    axis = torch.linspace(-GRID_LIMIT, GRID_LIMIT, GRID)
    second, first = torch.meshgrid(axis, axis, indexing="ij")
    with torch.no_grad():
        logits = net(torch.stack([first.flatten(), second.flatten()], dim=1))
    confidence, prediction = (found.view(GRID, GRID) for found in logits.softmax(dim=1).max(dim=1))
    endless = None if endless_steps is None else attack_toy(net, stop_at=None, max_steps=endless_steps)
    return ToyResult(
        alpha=alpha,
        train_loss=train_loss,
        points=points,
        labels=labels,
        axis=axis,
        confidence=confidence,
        prediction=prediction,
        attack=attack_toy(net),
        endless=endless,
    )
