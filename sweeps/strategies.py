"""Search strategies, the choices of `search.strategy`: what each asks of a sweep file, and where its code is.

docs/new-search.md shows how to add one. Reading this loads none of that code.
"""

from __future__ import annotations

from collections.abc import Mapping

from smoothsweep.core.plugins import with_plugins
from smoothsweep.sweeps.strategy_kind import StrategyKind


def _own_keys(name: str, kind: StrategyKind, known: Mapping[str, StrategyKind]) -> str | None:
    """Why a plugin's strategy cannot stand beside those before it; None where it can."""
    return f"expected its keys in settings, not in own, got {', '.join(kind.own)}" if kind.own else None


_OWN: dict[str, StrategyKind] = {
    "grid": StrategyKind(
        code="unguided:propose_grid",
        words="Every point of the space was tried",
        without={"recipes": "the space says it", "seed": "a grid has nothing random"},
        whole_space=True,
    ),
    "random": StrategyKind(code="unguided:propose_random", words="Recipes were drawn by chance"),
    "optuna": StrategyKind(
        code="optuna_choice:propose_optuna",
        words="Optuna's sampler proposed recipes from what the earlier ones showed",
        own=("sampler",),
        learns=True,
    ),
    "halving": StrategyKind(
        code="halving:propose_halving",
        words="Cheap attacks on many recipes, the full attack on the best of them",
        own=("rungs", "audit"),
        needs={"rungs": "at least one cheap attack"},
        count_shapes=True,
    ),
    "noise_aware": StrategyKind(
        code="noise_aware:propose_noise_aware",
        words="Recipes trained under the first seeds, and under the others where they might extend the frontier",
        own=("first_seeds",),
        learns=True,
    ),
}

STRATEGIES: dict[str, StrategyKind] = with_plugins("search", _OWN, StrategyKind, _own_keys)
"""Name in sweep files -> the strategy."""
