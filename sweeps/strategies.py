"""What a search strategy is: where its code is, and what it asks of a sweep file. Loads none of that code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.named_code import load_named
from smoothsweep.core.plugins import with_plugins

_HERE = "smoothsweep.orchestrator.search."


@dataclass(frozen=True, kw_only=True)
class StrategyKind:
    """One strategy.

    Attributes:
        code: 'module:function' of `orchestrator/search`, of a plugin with the whole path of its module:
            (setup, proposals so far, their outcomes) -> the next proposal, `Wait()` before more has come out, or None
            at the end.
        words: What it did, as a report says it.
        own: Keys of `search` that mean nothing to strategies that do not name them here.
        settings: Dataclass of what stands under `search.settings`, with the bounds in its types (`core.bounds`); None
            for a strategy without. Its instance is the `settings` of the strategy's `setup`.
        needs: Keys that must be there -> what is expected.
        without: Keys that all others have -> why they mean nothing to it.
        learns: Whether it proposes from outcomes, so that only a few recipes are open at once.
        whole_space: Whether it tries every point, so that the space must be finite.
        count_shapes: Whether the number of recipes shapes all proposals, so that another number is another search.
    """

    code: str
    words: str
    own: tuple[str, ...] = ()
    settings: type[Any] | None = None
    needs: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    learns: bool = False
    whole_space: bool = False
    count_shapes: bool = False

    @property
    def propose(self) -> Callable[..., Any]:
        """The function itself."""
        return load_named(self.code, "" if "." in self.code.partition(":")[0] else _HERE)


def _own_keys(name: str, kind: StrategyKind, known: Mapping[str, StrategyKind]) -> str | None:
    """Why a plugin's strategy cannot stand beside those before it; None where it can."""
    return f"expected its keys in settings, not in own, got {', '.join(kind.own)}" if kind.own else None


_OWN: dict[str, StrategyKind] = {
    "grid": StrategyKind(
        code="setup:propose_grid",
        words="Every point of the space was tried",
        without={"recipes": "the space says it", "seed": "a grid has nothing random"},
        whole_space=True,
    ),
    "random": StrategyKind(code="setup:propose_random", words="Recipes were drawn by chance"),
    "optuna": StrategyKind(
        code="optuna_choice:propose_optuna",
        words="Optuna's sampler proposed recipes from what the earlier ones showed",
        own=("sampler",),
        learns=True,
    ),
    "halving": StrategyKind(
        code="setup:propose_halving",
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
