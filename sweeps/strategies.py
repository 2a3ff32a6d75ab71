"""Search strategies, the choices of `search.strategy`: what each asks of a sweep file, and where its code is.

docs/new-search.md shows how to add one. Reading this loads none of that code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

_HERE = "smoothsweep.orchestrator.search.strategies."


@dataclass(frozen=True, kw_only=True)
class StrategyKind:
    """One strategy.

    code: 'module:function' of `orchestrator/search/strategies`: (setup, proposals so far, their outcomes) -> the next
    proposal, `Wait()` before more has come out, or None at the end. words: what it did, as a report says it.
    own: keys of `search` that mean nothing to strategies that do not name them here. needs: keys that must be there ->
    what is expected. without: keys that all others have -> why they mean nothing to it. learns: whether it proposes
    from outcomes, so that only a few recipes are open at once. whole_space: whether it tries every point, so that the
    space must be finite. count_shapes: whether the number of recipes shapes all proposals, so that another number is
    another search.
    """

    code: str
    words: str
    own: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    learns: bool = False
    whole_space: bool = False
    count_shapes: bool = False

    @property
    def propose(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.code.partition(":")
        return getattr(import_module(_HERE + module), name)


STRATEGIES: Mapping[str, StrategyKind] = {
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
"""Name in sweep files -> the strategy."""
