"""Plug & Play whose latents are moved by Langevin steps, not Adam's. Planning reads this file, so no torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from smoothsweep.core.attacks.ppa.attack import Optimise, PlugAndPlay, Stages
from smoothsweep.core.bounds import NotNegative


@dataclass(frozen=True, kw_only=True)
class Steps(Optimise):
    """Stage 2, how latents are moved; kind: a row of `Langevin.stages["optimise"]`."""

    kind: Literal["langevin", "adam"] = "langevin"


_ADAM = PlugAndPlay.stages["optimise"]["adam"]


@dataclass(frozen=True, kw_only=True)
class Langevin(PlugAndPlay):
    """w <- w - lr gradient + sqrt(2 lr noise) e with e standard normal (Welling and Teh, ICML 2011).

    noise: the temperature of the walk; 0 is plain gradient descent.
    """

    title = "Langevin Plug & Play"
    stages: ClassVar[Stages] = {
        **PlugAndPlay.stages,
        "optimise": {"langevin": (_ADAM - {"betas"}) | {"noise"}, "adam": _ADAM},
    }

    optimise: Steps = field(default_factory=Steps)
    noise: NotNegative = 1e-4

    @property
    def variant(self) -> Any:
        """Its noise too."""
        return " ".join([super().variant, f"noise {self.noise:g}"])

    def ways(self) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
        """The steps beside Adam's."""
        from smoothsweep_example.langevin_steps import optimise_by_langevin

        ways = super().ways()
        return {**ways, "optimise": {**ways["optimise"], "langevin": optimise_by_langevin}}
