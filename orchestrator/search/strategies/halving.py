"""Successive halving (Jamieson and Talwalkar, 2016): many recipes meet a cheap attack, the best of them a dearer one.

The target is trained once for all rungs, so a rung costs its attack alone. Beside the survivors some of those dropped
meet the full attack too, chosen by chance: only they can show whether the cheap attack ranks as the full one does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.shared.outcomes import Outcome
from smoothsweep.orchestrator.search.shared.ranking import best
from smoothsweep.orchestrator.search.shared.setup import Outcomes, Setup, Wait, is_settled


def propose_halving(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """The next recipe for the lowest rung that is not complete; Wait where the rung before is not through."""
    number = len(proposals)
    baseline = [p for p in proposals if p.origin == "baseline"]
    entered = [p for p in proposals if p.rung == 0]
    if len(entered) < (setup.recipes or 0) - len(baseline) and len(entered) + len(baseline) == number:
        values = setup.fresh(proposals, lambda attempt: setup.random(number, attempt))
        if values is not None:
            return Proposal(number=number, values=values, rung=0, origin="random")
    dropped: list[Proposal] = []
    for rung in range(len(setup.rungs)):
        if not all(is_settled(outcomes, p.number) for p in entered):
            return Wait()
        through = survivors(setup, entered, outcomes, rung)
        dropped += [p for p in entered if p not in through]
        after = rung + 1 if rung + 1 < len(setup.rungs) else None
        there = [p for p in proposals if p.rung == after and p.origin == "survivor"]
        if len(there) < len(through) and (missing := _not_yet(through, there)):
            return _again(missing[0], number, after, "survivor")
        entered = there
    audited = [p for p in proposals if p.origin == "audit"]
    chosen = audits(setup, dropped)
    if len(audited) < len(chosen) and (missing := _not_yet(chosen, audited)):
        return _again(missing[0], number, None, "audit")
    return None


def survivors(setup: Setup, entered: Sequence[Proposal], outcomes: Outcomes, rung: int) -> list[Proposal]:
    """Who of those that entered a rung go on: the share `keep` (rounded up), best first."""
    count = math.ceil(setup.rungs[rung].keep * len(entered) - 1e-9)
    known: dict[int, Outcome] = {p.number: outcomes[p.number] for p in entered}
    by_number = {p.number: p for p in entered}
    return [by_number[number] for number in best(known, setup.aims.objectives, max(1, count))]


def audits(setup: Setup, dropped: Sequence[Proposal]) -> list[Proposal]:
    """Some of those that were dropped, at any rung, by chance."""
    candidates = sorted(dropped, key=lambda p: p.number)
    count = min(setup.audit, len(candidates))
    chosen = np.random.default_rng([setup.seed, 1]).permutation(len(candidates))[:count]
    return [candidates[index] for index in sorted(chosen)]


def _not_yet(wanted: Sequence[Proposal], there: Sequence[Proposal]) -> list[Proposal]:
    """Wanted proposals whose recipe is not there yet."""
    return [p for p in wanted if all(p.values != other.values for other in there)]


def _again(proposal: Proposal, number: int, rung: int | None, origin: str) -> Proposal:
    return Proposal(number=number, values=proposal.values, rung=rung, origin=origin, of=proposal.number)
