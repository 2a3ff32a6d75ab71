"""Strategies without a model: the whole space point by point, chance, and successive halving; and who is best.

Successive halving (Jamieson and Talwalkar, 2016): many recipes meet a cheap attack, the best of them a dearer one. The
target is trained once for all rungs, so a rung costs its attack alone. Beside the survivors some of those dropped
meet the full attack too, chosen by chance: only they can show whether the cheap attack ranks as the full one does.

Recipes are ordered as by NSGA-II (Deb et al., 2002, section III): constraints first, then non-dominated rank, then how
lonely a recipe is (crowding distance).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.frontier import Direction, pareto_mask
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.setup import Outcome, Outcomes, Setup, Wait, is_settled


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


def best(outcomes: Mapping[int, Outcome], directions: Mapping[str, Direction], count: int) -> list[int]:
    """Numbers of the `count` best among those that are done and meet the constraints, best first.

    Ties go to the smaller number. If none meets the constraints, the one that misses them by least goes on alone, so
    that a search never ends with nothing.
    """
    done = {number: outcome for number, outcome in sorted(outcomes.items()) if outcome.status == "done"}
    allowed = [number for number, outcome in done.items() if outcome.feasible]
    if not allowed:
        misses = {
            number: sum(max(0.0, miss) for miss in outcome.violations.values()) for number, outcome in done.items()
        }
        return sorted(misses, key=lambda number: (misses[number], number))[:1]
    points = np.array([[done[number].objectives[column] for column in directions] for number in allowed], dtype=float)
    return [allowed[index] for index in ordered(points, list(directions.values()))[:count]]


def ordered(points: np.ndarray, directions: Sequence[Direction]) -> list[int]:
    """Indices of the points [n, d], best first: by rank, then by falling crowding distance, then by index."""
    order: list[int] = []
    for front in fronts(points, directions):
        lonely = crowding(points[front])
        order += [front[place] for place in sorted(range(len(front)), key=lambda i: (-lonely[i], front[i]))]
    return order


def fronts(points: np.ndarray, directions: Sequence[Direction]) -> list[list[int]]:
    """Indices of the points that nothing dominates, then of those that only the first dominate, and so on."""
    remaining, ordered_fronts = np.arange(len(points)), []
    while len(remaining):
        mask = pareto_mask(points[remaining], directions)
        ordered_fronts.append(remaining[mask].tolist())
        remaining = remaining[~mask]
    return ordered_fronts


def crowding(points: np.ndarray) -> np.ndarray:
    """Distance [n] between the neighbours of each of the points [n, d] in every objective, relative to its range.

    Infinite for the first and last in an objective; 0 where all are equal.
    """
    count = len(points)
    distance = np.zeros(count)
    for column in points.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        if span == 0:
            continue
        distance[order[0]] = distance[order[-1]] = np.inf
        if count > 2:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance
