"""Priors that are there already: one that comes with smoothsweep, and one in a folder. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from smoothsweep.core.bounds import FilePath
from smoothsweep.core.priors.settings import DESCRIPTION, DISCRIMINATOR, WEIGHTS, PriorFiles, PriorSettings

_SHIPPED_AT = Path(__file__).parent / "weights"
SHIPPED: dict[str, Path] = {"stylegan2_synthetic64": _SHIPPED_AT / "stylegan2_synthetic64"}
"""Priors that come with the package: the common stem of the two files. weights/README.md says how good they are."""


@dataclass(frozen=True, kw_only=True)
class ShippedPrior(PriorSettings):
    """A generator that comes with smoothsweep.

    name: the generator.
    """

    title: ClassVar[str] = "shipped generator"

    name: Literal["stylegan2_synthetic64"] = "stylegan2_synthetic64"

    @property
    def files(self) -> PriorFiles:
        """Beside this file."""
        stem = SHIPPED[self.name]
        return PriorFiles(
            weights=stem.with_suffix(".safetensors"), description=stem.with_suffix(".json"), key="prior.name"
        )


@dataclass(frozen=True, kw_only=True)
class PriorFolder(PriorSettings):
    """A prior that smoothsweep trained or imported earlier.

    path: the folder of the prior, with weights.safetensors and prior.json.
    """

    title: ClassVar[str] = "generator in a folder"
    with_discriminator: ClassVar[bool] = True

    path: FilePath

    @property
    def files(self) -> PriorFiles:
        """What `core.priors.registry.save_prior` wrote."""
        place = Path(self.path).expanduser()
        return PriorFiles(
            weights=place / WEIGHTS,
            description=place / DESCRIPTION,
            discriminator=place / DISCRIMINATOR,
            key="prior.path",
        )
