"""A Latin hypercube (McKay, Beckman and Conover 1979): of every key, each of as many equal parts is met once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import Outcomes, Setup
from smoothsweep.sweeps.space import Dimension, Values


def propose_latin(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """The next row of the hypercube; drawn anew within its parts where that recipe is known or not valid."""
    number, rows = len(proposals), setup.recipes or 1

    def draw(attempt: int) -> Values:
        if attempt >= setup.settings.within:
            return setup.random(number, attempt)
        inner = np.random.default_rng([setup.seed, number, attempt])

        def position(one: Dimension) -> float | int:
            order = np.random.default_rng([setup.seed, setup.space.keys.index(one.key)]).permutation(rows)
            return one.spread((int(order[number % rows]) + inner.random()) / rows)

        return setup.space.choose(position)

    values = setup.fresh(proposals, draw)
    return None if values is None else Proposal(number=number, values=values, origin="latin")
