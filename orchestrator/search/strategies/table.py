"""What to try next: one function per strategy, from what was proposed and how it came out.

A strategy is a plain function of the proposals so far and of outcomes; it keeps nothing between calls. So the same
search proposes the same recipes whatever was killed, resumed, or finished in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.strategies.halving import propose_halving
from smoothsweep.orchestrator.search.strategies.noise_aware import propose_noise_aware
from smoothsweep.orchestrator.search.strategies.setup import Outcomes, Setup, Strategy, baseline_first


def propose_grid(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """The first recipe of the space, in its order, that is valid and not known."""
    known = setup.known(proposals)
    for values in setup.space.enumerate():
        try:
            if setup.identity(values) not in known:
                return Proposal(number=len(proposals), values=values, origin="grid")
        except InputError:
            continue  # ends and choices were seen to be of use; what is left out are combinations
    return None


def propose_random(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """A random recipe."""
    number = len(proposals)
    values = setup.fresh(proposals, lambda attempt: setup.random(number, attempt))
    return None if values is None else Proposal(number=number, values=values, origin="random")


def propose_optuna(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """Optuna's choice, from the outcomes of the proposals up to i - lag."""
    from smoothsweep.orchestrator.search.strategies.optuna_choice import choose  # a second of imports

    number = len(proposals)
    told = number - (setup.lag or 1) + 1
    origin, drawn = "optuna", []

    def draw(attempt: int) -> dict[str, Any]:
        nonlocal origin
        values, origin = choose(setup, proposals, outcomes, told=max(0, told), refused=drawn)
        drawn.append(values)
        return values

    values = setup.fresh(proposals, draw)
    return None if values is None else Proposal(number=number, values=values, origin=origin)


STRATEGIES: dict[str, Strategy] = {
    "grid": baseline_first(propose_grid),
    "random": baseline_first(propose_random),
    "optuna": baseline_first(propose_optuna),
    "halving": baseline_first(propose_halving),
    "noise_aware": baseline_first(propose_noise_aware),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name; InputError naming the valid ones otherwise."""
    if name not in STRATEGIES:
        raise InputError(f"search.strategy: expected one of {', '.join(STRATEGIES)}, got {name!r}")
    return STRATEGIES[name]
