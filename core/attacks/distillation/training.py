"""Networks that learn from a target by SGD, one after the other: their states, and going on where one was left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import nn

from smoothsweep.core.attacks.distillation.config import DistilledBySGD
from smoothsweep.core.attacks.shared.base import PartContext
from smoothsweep.core.training.gan_pair import KeptState

Settings = TypeVar("Settings", bound=DistilledBySGD)

CHECKPOINTS = 20
"""Checkpoints of each network's training."""


@dataclass(kw_only=True)
class DistillationState(KeptState, Generic[Settings]):
    """A training under way.

    Attributes:
        settings: How it is trained, a dataclass.
        losses: The loss of every step.
    """

    MODULES: ClassVar[tuple[str, ...]] = ("network", "sgd")
    ROWS: ClassVar[tuple[str, ...]] = ("losses",)

    settings: Settings
    network: nn.Module
    sgd: torch.optim.SGD
    losses: list[float] = field(default_factory=list)

    @classmethod
    def fresh(cls, network: nn.Module, settings: Settings, **more: Any) -> Self:
        """A training that begins."""
        sgd = torch.optim.SGD(
            network.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        return cls(settings=settings, network=network.train(), sgd=sgd, **more)

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return len(self.losses)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """How it is trained."""


State = TypeVar("State", bound=DistillationState)


def distil_in_turn(
    fresh: Callable[[int], State],
    teach: Callable[[State, Callable[[State], None]], None],
    part_context: PartContext,
    *,
    count: int,
    steps: int,
    called: str,
) -> list[State]:
    """`count` trainings of `steps` steps, gone on from the state that the part context kept last.

    Args:
        fresh: Number -> a training that begins.
        teach: Takes the steps that are left, and calls what it is given after each.
        called: What is distilled, in a line about the progress.
    """
    kept, done = part_context.last_state() or {"done": [], "under_way": None}, []

    def keep(state: State) -> None:
        part_context.progress(
            (len(done) + state.step / steps) / count, f"{called} {len(done)}, step {state.step}/{steps}"
        )
        if state.step % max(1, steps // CHECKPOINTS) == 0 and state.step < steps:
            part_context.keep_state({"done": [past.checkpoint() for past in done], "under_way": state.checkpoint()})

    for number in range(count):
        state = fresh(number)
        if number < len(kept["done"]):
            state.restore(kept["done"][number])
        elif number == len(kept["done"]) and kept["under_way"] is not None:
            state.restore(kept["under_way"])
        teach(state, keep)
        done.append(state)
    return done


def last_loss(losses: torch.Tensor) -> float:
    """Mean of losses [networks, steps] over what was distilled since the last checkpoint could be kept."""
    return losses[:, -max(1, losses.shape[1] // CHECKPOINTS) :].mean().item()
