"""The search strategies of this package: rows for smoothsweep's table, which load none of their code."""

from dataclasses import dataclass

from smoothsweep.core.bounds import Count
from smoothsweep.sweeps.search import StrategyKind


@dataclass(frozen=True, kw_only=True)
class LatinSettings:
    """What stands under `search.settings`.

    Attributes:
        within: Draws within a row's parts before any recipe of the space will do.
    """

    within: Count = 20


LATIN = StrategyKind(
    code="smoothsweep_example.latin:propose_latin",
    words="Recipes met every part of each key's range once",
    settings=LatinSettings,
    count_shapes=True,
)
