"""Settings of the map of a target's features, in a file of their own so that planning loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.errors import InputError


def spread_over(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 to count - 1, evenly spread, both ends among them."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)] if most > 1 else [0]


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """The paper's Figures 4 and 5: penultimate activations of training images (section 4.4).

    Attributes:
        classes: Classes on the map, evenly spread over the labels (the paper's 100); distances are measured of all.
        perplexity: Neighbours that t-SNE weighs for each point.
        seed: Seed of t-SNE's random start.
    """

    classes: Count = 100
    perplexity: Annotated[float, Ge(2), Le(1000)] = 30.0
    seed: Seed = 0

    def check_samples(self, count: int) -> None:
        """Raise InputError for fewer images to map than the perplexity allows."""
        if count <= self.perplexity:
            expected = f"expected less than the {count} training images to map"
            raise InputError(f"perplexity: {expected}, got {self.perplexity:g}")
