"""Everything that changes while networks train, and how it goes into a checkpoint and back: all but targets use it.

A class of it is a dataclass that names which of its fields change, and what tells its training from another.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

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
