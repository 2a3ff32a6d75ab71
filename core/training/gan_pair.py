"""A generator and a discriminator, each with its Adam: what the trainings of all attacks' own GANs share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import nn

from smoothsweep.core.errors import InputError


class KeptState(ABC):
    """KIND: how a refusal begins. The fields that change: MODULES, networks and optimisers; VALUES, plain values;

    ROWS, lists of numbers or of as many numbers each, which a checkpoint holds as float64 tensors.
    """

    KIND: ClassVar[str]
    MODULES: ClassVar[tuple[str, ...]]
    VALUES: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have been made with to be gone on from: plain values by name."""

    def checkpoint(self) -> dict[str, Any]:
        """A copy of all of it: tensors and plain values only."""
        modules = {name: getattr(self, name).state_dict() for name in self.MODULES}
        values = {name: getattr(self, name) for name in self.VALUES}
        rows = {name: torch.tensor(getattr(self, name), dtype=torch.float64) for name in self.ROWS}
        return copy.deepcopy({**self.identity(), **modules, **values, **rows})

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint, which stays as it is. Raises InputError for one of another training."""
        for name, expected in self.identity().items():
            if (value := checkpoint.get(name)) != expected:
                raise InputError(f"{self.KIND}: {name}: expected {expected}, got {value}")
        for name in self.MODULES:
            getattr(self, name).load_state_dict(copy.deepcopy(checkpoint[name]))
        for name in self.VALUES:
            setattr(self, name, copy.deepcopy(checkpoint[name]))
        for name in self.ROWS:
            setattr(self, name, checkpoint[name].tolist())


@dataclass(kw_only=True)
class GanPair(KeptState):
    """Everything that changes.

    Attributes:
        config, recipe: Dataclasses; `recipe.settings` are plain values, all that decides a step.
        step: How many steps were taken.
        losses: A row for each of them.
    """

    KIND: ClassVar[str] = "gan checkpoint"
    MODULES: ClassVar[tuple[str, ...]] = ("generator", "discriminator", "generator_adam", "discriminator_adam")
    VALUES: ClassVar[tuple[str, ...]] = ("step",)
    ROWS: ClassVar[tuple[str, ...]] = ("losses",)

    config: Any
    recipe: Any
    generator: nn.Module
    discriminator: nn.Module
    generator_adam: torch.optim.Adam
    discriminator_adam: torch.optim.Adam
    step: int = 0
    losses: list[list[float]] = field(default_factory=list)

    @classmethod
    def fresh(
        cls,
        config: Any,
        recipe: Any,
        generator: Callable[[Any], nn.Module],
        discriminator: Callable[[Any], nn.Module],
        *,
        seed: int,
        device: torch.device,
        **own: Any,
    ) -> Self:
        """Networks of `config` in training mode, whose weights follow from the seed, and their optimisers.

        own: the fields that a class of pairs has beside.
        """
        with torch.random.fork_rng(devices=[]):  # layers draw their own weights, from torch's generator
            torch.manual_seed(seed)
            pair = {"generator": generator(config), "discriminator": discriminator(config)}
        networks: dict[str, Any] = {name: network.to(device).train() for name, network in pair.items()}
        adams: dict[str, Any] = {
            f"{name}_adam": torch.optim.Adam(network.parameters(), lr=recipe.lr, betas=recipe.betas)
            for name, network in networks.items()
        }
        return cls(config=config, recipe=recipe, **networks, **adams, **own)

    @property
    def device(self) -> torch.device:
        """Where both networks are."""
        return next(self.generator.parameters()).device

    def identity(self) -> dict[str, Any]:
        """What both networks are, and how they are trained."""
        recipe = {**self.recipe.settings, "betas": list(self.recipe.betas)}
        return {"config": asdict(self.config), "recipe": recipe}


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """One step down the loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
