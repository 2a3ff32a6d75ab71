"""A prior of parts that are added up: what planning reads, so no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.cards import NetworkCard, NetworkKind
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.settings import PriorKind, PriorSettings


@dataclass(frozen=True, kw_only=True)
class PartsConfig:
    """The size of a prior of parts.

    Attributes:
        resolution: Side length in pixels.
        parts: How many (= z_dim = w_dim).
    """

    num_ws: ClassVar[int] = 1

    resolution: Annotated[int, Ge(1), Le(4096)]
    parts: Annotated[int, Ge(1), Le(2**20)]

    def __post_init__(self) -> None:
        check_fields(self, "parts: ")

    @property
    def z_dim(self) -> int:
        """A latent has a number for each part."""
        return self.parts

    w_dim = z_dim


@dataclass(frozen=True, kw_only=True)
class PartsFit(PriorSettings):
    """Parts fitted to the public images.

    Attributes:
        parts: How many, fewer than there are public images.
        rounds: Updates of parts and amounts.
        seed: Seed of where they begin.
    """

    parts: Count = 60
    rounds: Count = 100
    seed: Seed = 0

    def network_card(self, size: int) -> NetworkCard:
        """Of the images' side."""
        return NetworkCard(kind="parts", config=PartsConfig(resolution=size, parts=self.parts))

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError for as many parts as images, or more."""
        if count is not None and self.parts >= count:
            raise InputError(f"prior.parts: expected fewer than the {count} public images, got {self.parts}")


PARTS = PriorKind(
    settings=PartsFit,
    make="smoothsweep_example.parts:from_public",
    needs_public=True,
    networks={"parts": NetworkKind(config=PartsConfig, network="smoothsweep_example.parts:Parts")},
    cites=(
        "@article{lee1999learning, title = {Learning the parts of objects by non-negative matrix factorization}, "
        "author = {Lee, Daniel D. and Seung, H. Sebastian}, journal = {Nature}, year = {1999}}",
    ),
)
"""What the entry point names."""
