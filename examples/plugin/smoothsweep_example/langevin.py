"""Plug & Play whose latents are moved by Langevin steps, not Adam's. Planning reads this file, so no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from smoothsweep.core.attacks.ppa.attack import Optimise, PlugAndPlay, StageKind
from smoothsweep.core.bounds import NotNegative


@dataclass(frozen=True, kw_only=True)
class Steps(Optimise):
    """Stage 2, how latents are moved; kind: a row of `Langevin.stages["optimise"]`."""

    kind: Literal["langevin", "adam"] = "langevin"


_ADAM = PlugAndPlay.stages["optimise"]["adam"]
_LANGEVIN = StageKind(
    run="smoothsweep_example.langevin_steps:optimise_by_langevin", reads=(_ADAM.reads - {"betas"}) | {"noise"}
)


@dataclass(frozen=True, kw_only=True)
class Langevin(PlugAndPlay):
    """w <- w - lr gradient + sqrt(2 lr noise) e with e standard normal (Welling and Teh, ICML 2011).

    noise: the temperature of the walk; 0 is plain gradient descent.
    """

    title = "Langevin Plug & Play"
    stages: ClassVar[Mapping[str, Mapping[str, StageKind]]] = {
        **PlugAndPlay.stages,
        "optimise": {"langevin": _LANGEVIN, "adam": _ADAM},
    }

    optimise: Steps = field(default_factory=Steps)
    noise: NotNegative = 1e-4

    @property
    def variant(self) -> Any:
        """Its noise too."""
        return " ".join([super().variant, f"noise {self.noise:g}"])
