"""What planning reads of eigenfaces: the settings, and the configuration of the network. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.cards.network_card import NetworkCard
from smoothsweep.core.checks import require_count
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.settings import PriorSettings


@dataclass(frozen=True, kw_only=True)
class EigenfacesConfig:
    """The size of an eigenfaces prior.

    Attributes:
        resolution: Side length in pixels.
        components: Number of principal components (= z_dim = w_dim).
    """

    resolution: int
    components: int

    def __post_init__(self) -> None:
        require_count("eigenfaces: resolution", self.resolution, 1, 4096)
        require_count("eigenfaces: components", self.components, 1, 2**20)

    num_ws: ClassVar[int] = 1

    @property
    def z_dim(self) -> int:
        return self.components

    w_dim = z_dim


@dataclass(frozen=True, kw_only=True)
class EigenfacesFit(PriorSettings):
    """PCA of the public images: fitted in seconds, needs no file.

    Attributes:
        components: Principal components, as many numbers as a latent has; fewer than there are public images.
        seed: Seed of the random sketch that stands in for the full PCA where images and pixels are many.
    """

    components: Count = 150
    seed: Seed = 0

    def network_card(self, size: int) -> NetworkCard:
        """Card of a network for images of `size` pixels a side."""
        return NetworkCard(kind="eigenfaces", config=EigenfacesConfig(resolution=size, components=self.components))

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError for as many components as images, or more."""
        if count is not None and self.components >= count:
            got = self.components
            raise InputError(f"prior.components: expected fewer than the {count} public images, got {got}")
