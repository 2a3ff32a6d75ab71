"""What classes of Plug & Play that are computed side by side have in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.optimisation.objective import Transform
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.priors.base import Prior


@dataclass(frozen=True, kw_only=True)
class SharedInputs:
    """What the classes have in common: networks, draws, and the way to show the target what is not counted."""

    prior: Prior
    view: GradientView
    seed: int
    protocol: Protocol
    transform: Transform

    @property
    def run(self) -> Execution:
        """Where and how."""
        return self.view.execution

    @property
    def single_class_arguments(self) -> dict[str, Any]:
        """The same settings as keyword arguments for the stages of a single class."""
        run = self.run
        common = {"seed": self.seed, "protocol": self.protocol, "transform": self.transform}
        return {**common, "device": run.device, "execution": run}

    def frozen_networks(self) -> AbstractContextManager[None]:
        """What a stage computes in."""
        return frozen(self.prior, self.view.logits)

    def check_once(self, what: tuple[object, ...], networks: tuple[object, ...], compare: Callable[[], bool]) -> bool:
        """What `compare` finds, uncounted; it is asked once for `what` of these prepared networks."""

        def compared() -> bool:
            with self.view.uncounted():
                return compare()

        return self.run.check_once(what, networks, compared)
