"""What the search by CMA-ES is told. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.bounds import MOST, Positive

LEAST_DIRECTIONS = 2
"""Directions that a search needs."""


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """What CMA-ES searches, and how long.

    Attributes:
        components: Principal directions of the pool's latents that are searched, fewer where latents or pool have
            fewer.
        population: Images of a generation.
        sigma: Spread of the first generation, in standard deviations of the pool along each direction.
        box: Coordinates of a latent stay within so many standard deviations of the pool's mean, or where the search
            began.
        max_queries: Images that the target is shown for one class at most.
    """

    components: Annotated[int, Ge(LEAST_DIRECTIONS), Le(MOST)] = 64
    population: Annotated[int, Ge(4), Le(MOST)] = 24
    sigma: Positive = 0.5
    box: Positive = 1.7
    max_queries: Annotated[int, Ge(5), Le(MOST)] = 2000
