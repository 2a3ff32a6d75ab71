"""The search strategies of this package: rows for smoothsweep's table, which load none of their code."""

from smoothsweep.sweeps.strategy_kind import StrategyKind

LATIN = StrategyKind(
    code="smoothsweep_example.latin:propose_latin",
    words="Recipes met every part of each key's range once",
    count_shapes=True,
)
