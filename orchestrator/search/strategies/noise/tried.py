"""What a search knows of every recipe it has tried, by seed: for strategies that give recipes more seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.shared.outcomes import DONE, FAILED
from smoothsweep.orchestrator.search.shared.places import place
from smoothsweep.orchestrator.search.shared.setup import Outcomes, Setup
from smoothsweep.sweeps.space import Positions, Values


@dataclass(frozen=True, kw_only=True)
class TriedRecipe:
    """One recipe, of all that was proposed of it.

    Attributes:
        number: of the proposal that began it.
        positions: None for a recipe outside of the space.
        seeds: how many of the sweep's seeds were proposed so far.
        of: how many seeds the sweep has.
        by_seed: seed -> column -> value, of what has come out.
        is_open: whether some of what was proposed has not come out.
        has_failed: whether some of it has failed.
    """

    number: int
    values: Values
    positions: Positions | None
    seeds: int
    of: int
    by_seed: Mapping[int, Mapping[str, float]]
    is_open: bool
    has_failed: bool

    @property
    def wants_seeds(self) -> bool:
        """Whether there are seeds that it has not met, and what it has met is known."""
        return self.seeds < self.of and not self.is_open and not self.has_failed

    @property
    def is_on_offer(self) -> bool:
        """Whether it may be on the frontier in the end: it has met all seeds, or is in flight."""
        return not self.has_failed and (self.is_open or self.seeds >= self.of)


def tried_recipes(
    setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes, *, visible: int
) -> list[TriedRecipe]:
    """The recipes tried so far, in the order in which they were begun.

    visible: the outcomes of so many first proposals are used.
    """
    groups: dict[int, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(proposal.number if proposal.of is None else proposal.of, []).append(proposal)
    return [_tried(setup, members, outcomes, visible) for members in groups.values()]


def _tried(setup: Setup, members: Sequence[Proposal], outcomes: Outcomes, visible: int) -> TriedRecipe:
    first, last = members[0], members[-1]
    out = {
        member.number: outcomes[member.number]
        for member in members
        if member.number < visible and member.number in outcomes
    }
    done = [outcome for outcome in out.values() if outcome.status == DONE]
    return TriedRecipe(
        number=first.number,
        values=first.values,
        positions=place(setup, first.values),
        seeds=setup.seeds if last.seeds is None else last.seeds,
        of=setup.seeds,
        by_seed=done[-1].by_seed if done else {},  # a later one holds the seeds of those before
        is_open=last.number not in out,
        has_failed=any(outcome.status == FAILED for outcome in out.values()),
    )
