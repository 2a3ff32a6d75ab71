"""What every strategy of a search knows, and what those share that draw recipe after recipe.

A strategy is a plain function of the proposals so far and of outcomes; it keeps nothing between calls. So the same
search proposes the same recipes whatever was killed, resumed, or finished in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.shared.outcomes import OPEN, Aims, Outcome
from smoothsweep.sweeps.search import Rung
from smoothsweep.sweeps.space import Space, Values
from smoothsweep.sweeps.strategies import STRATEGIES

REDRAWS = 200  # draws in a row that may be invalid or known already before the space counts as used up

Outcomes = Mapping[int, Outcome]  # by number of the proposal; those without are open


class Wait:
    """Nothing can be proposed before more of what was proposed has come out."""


@dataclass(kw_only=True)
class Setup:
    """What a strategy needs to know of its search.

    Attributes:
        identity: Recipe -> a string, the same for two recipes that are the same work; raises InputError for one that is
            not valid.
        recipes: How many to propose at most, None where the space says it.
        lag: How many may be open at once, None for any number; of a strategy that learns, proposal i is made of the
            outcomes of those up to i - lag.
        baseline: Tried first, {} for none.
        stated: All that the baseline's recipe has at keys of the space, also where it does not name them.
        settings: An instance of the strategy's own settings (`StrategyKind.settings`), None where it has none.
        sampler: Sampler of `optuna`, gp or tpe.
        seeds: How many seeds the sweep has.
        first_seeds: How many of them a recipe of `noise_aware` meets at first.
    """

    space: Space
    aims: Aims
    identity: Callable[[Values], str]
    seed: int = 0
    recipes: int | None = None
    lag: int | None = None
    baseline: Values = field(default_factory=dict)
    stated: Values = field(default_factory=dict)
    settings: Any = None
    sampler: str = "gp"
    seeds: int = 1
    first_seeds: int = 1
    rungs: tuple[Rung, ...] = ()
    audit: int = 0
    _identities: dict[int, str] = field(default_factory=dict)

    def known(self, proposals: Sequence[Proposal]) -> set[str]:
        """The identities of the recipes proposed so far."""
        for proposal in proposals[len(self._identities) :]:
            self._identities[proposal.number] = self.identity(proposal.values)
        return {self._identities[proposal.number] for proposal in proposals}

    def fresh(self, proposals: Sequence[Proposal], draw: Callable[[int], Values]) -> Values | None:
        """The first draw (of the attempt's number) that is valid and not known; None if REDRAWS find nothing new.

        Raises InputError if all of them are invalid.
        """
        known, reason, valid = self.known(proposals), "", 0
        for attempt in range(REDRAWS):
            values = draw(attempt)
            try:
                identity = self.identity(values)
            except InputError as error:
                reason = reason or str(error)
                continue
            valid += 1
            if identity not in known:
                return values
        if not valid:
            raise InputError(f"search.space: expected valid recipes, got none in {REDRAWS} draws; the first: {reason}")
        return None

    def random(self, number: int, attempt: int) -> Values:
        """A random recipe that depends on the seed, the proposal's number and the attempt alone."""
        return self.space.sample(np.random.default_rng([self.seed, number, attempt]))


Strategy = Callable[[Setup, Sequence[Proposal], Outcomes], "Proposal | Wait | None"]


def settled(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> bool:
    """Whether the proposals up to i - lag have come out, so that the next one, i, may be made."""
    if setup.lag is None:
        return True
    return all(is_settled(outcomes, number) for number in range(len(proposals) - setup.lag + 1))


def is_settled(outcomes: Outcomes, number: int) -> bool:
    return number in outcomes and outcomes[number].status != OPEN


def all_tried(setup: Setup, proposals: Sequence[Proposal]) -> bool:
    """Whether there are as many recipes as may be tried."""
    return setup.recipes is not None and setup.recipes <= sum(proposal.of is None for proposal in proposals)


def baseline_first(propose: Strategy) -> Strategy:
    """The strategy with the sweep's baseline before everything else, so that there is something to compare with."""

    def with_baseline(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
        if setup.baseline and not proposals:
            return Proposal(number=0, values=dict(setup.baseline), origin="baseline")
        if all_tried(setup, proposals) and not (setup.rungs or any(proposal.seeds for proposal in proposals)):
            return None
        return propose(setup, proposals, outcomes) if settled(setup, proposals, outcomes) else Wait()

    return with_baseline


def strategy(name: str) -> Strategy:
    """The strategy of that name, which tries the baseline first; InputError naming the valid ones otherwise."""
    if name not in STRATEGIES:
        raise InputError(f"search.strategy: expected one of {', '.join(STRATEGIES)}, got {name!r}")
    return baseline_first(STRATEGIES[name].propose)
