"""Strategies that look at no outcome: the whole space point by point, and chance."""

from __future__ import annotations

from collections.abc import Sequence

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.shared.setup import Outcomes, Setup


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
