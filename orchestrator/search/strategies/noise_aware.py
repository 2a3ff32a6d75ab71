"""Proposals that know how noisy a trial is: a recipe meets a few seeds, and more only where the frontier is unclear.

Every objective and constraint has a model of what its trials scatter (`noise_model`). What is proposed is what extends
the frontier most by expectation (`improvement`): either a new recipe, which meets the first seeds alone, or one more
seed for a recipe that has not met all of them. The frontier is made of recipes that have met all seeds, and of those in
flight, whose outcomes are drawn from the model together with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.search.shared.places import from_shares, groups_of, place, points_of, shares_of
from smoothsweep.orchestrator.search.shared.setup import Outcomes, Setup, Wait, all_tried, is_settled
from smoothsweep.orchestrator.search.strategies.noise.candidates import first_shares, new_recipes
from smoothsweep.orchestrator.search.strategies.noise.improvement import expected_gains
from smoothsweep.orchestrator.search.strategies.noise.noise_model import SeenTrials, fit
from smoothsweep.orchestrator.search.strategies.noise.tried import TriedRecipe, tried_recipes
from smoothsweep.sweeps.space import Positions, Values

STARTUP = 4  # recipes at least, and one more than dimensions, before the model is asked
DRAWS = 64  # joint draws of the model, half of them mirrored
BEYOND = 0.1  # how far the reference point lies beyond the worst recipe, as a fraction of the range
WORTH = 0.005  # fraction of the frontier's box that further seeds must promise once all recipes were tried


def propose_noise_aware(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """A new recipe under the first seeds, or one more seed for one that was tried."""
    if not all_tried(setup, proposals):
        visible = max(0, len(proposals) - (setup.lag or 1) + 1)
        proposal = _new_or_more(setup, proposals, tried_recipes(setup, proposals, outcomes, visible=visible))
        if proposal is not None:
            return proposal
    return _last_seeds(setup, proposals, outcomes)


def _new_or_more(setup: Setup, proposals: Sequence[Proposal], known: Sequence[TriedRecipe]) -> Proposal | None:
    """The better of a new recipe and another seed for an old one; None where the space holds nothing new."""
    number = len(proposals)
    if len(known) < startup_of(setup) or len(_measured(known)) < 2:
        return _new(setup, proposals, _first(setup, known), "startup")[0]
    pool = new_recipes(setup, known, number)
    more = [recipe for recipe in _measured(known) if recipe.wants_seeds]
    candidates = [
        *(present(recipe.positions, "positions") for recipe in more),
        *(present(place(setup, values), "place") for values in pool),
    ]
    worth = expected_worth(setup, known, candidates, number)
    by_chance = np.random.default_rng([setup.seed, number, 2]).random(len(pool))  # among equals, such as none of worth
    order = np.lexsort((by_chance, -worth[len(more) :]))
    new, drawn = _new(setup, proposals, [pool[index] for index in order], "noise_aware")
    if new is None or not more:
        return new
    best = int(np.argmax(worth[: len(more)]))
    of_new = worth[len(more) + order[drawn]] if drawn < len(order) else 0.0
    return _more(more[best], number, more[best].seeds + 1) if worth[best] > of_new else new


def _last_seeds(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """All seeds for a recipe that may still extend the frontier, once nothing new is proposed; None if none may.

    By the outcomes up to the last new recipe: what ends meanwhile changes nothing.
    """
    begun = 1 + max((proposal.number for proposal in proposals if proposal.of is None), default=-1)
    if not all(is_settled(outcomes, number) for number in range(begun)):
        return Wait()
    known = tried_recipes(setup, proposals, outcomes, visible=begun)
    more = [recipe for recipe in _measured(known) if recipe.wants_seeds]
    if not more or len(_measured(known)) < 2:
        return None
    worth = expected_worth(setup, known, [present(recipe.positions, "positions") for recipe in more], len(proposals))
    best = int(np.argmax(worth))
    return _more(more[best], len(proposals), setup.seeds) if worth[best] > WORTH else None


def startup_of(setup: Setup) -> int:
    """How many recipes are spread evenly before the model is asked, the baseline included."""
    return max(STARTUP, len(setup.space.keys) + 1)


def _first(setup: Setup, known: Sequence[TriedRecipe]) -> list[Values]:
    """The next recipe of the first design, which counts the baseline as one of its own; none once it is used up."""
    baseline = [place(setup, setup.baseline)] if setup.baseline else []
    others = [shares_of(setup.space, values) for values in baseline if values is not None]
    width = len(setup.space.keys)
    shares = first_shares(
        startup_of(setup) - len(baseline), width, np.reshape(others, (len(others), width)), setup.seed
    )
    return [from_shares(setup.space, row) for row in shares[len(known) - len(baseline) :][:1]]


def _new(
    setup: Setup, proposals: Sequence[Proposal], wanted: Sequence[Values], origin: str
) -> tuple[Proposal | None, int]:
    """The first recipe wanted that is valid and new, a random one after them; and how many were refused before."""
    number, refused = len(proposals), -1

    def draw(attempt: int) -> Values:
        nonlocal refused
        refused = attempt
        return wanted[attempt] if attempt < len(wanted) else setup.random(number, attempt)

    values = setup.fresh(proposals, draw)
    if values is None:
        return None, refused
    origin = origin if refused < len(wanted) else "random"
    seeds = setup.first_seeds if setup.first_seeds < setup.seeds else None
    return Proposal(number=number, values=values, origin=origin, seeds=seeds), refused


def _more(recipe: TriedRecipe, number: int, seeds: int) -> Proposal:
    return Proposal(
        number=number,
        values=recipe.values,
        origin="replication",
        of=recipe.number,
        seeds=seeds if seeds < recipe.of else None,
    )


def _measured(known: Sequence[TriedRecipe]) -> list[TriedRecipe]:
    """Tried recipes that a model can be fitted to."""
    return [recipe for recipe in known if recipe.by_seed and recipe.positions is not None]


def expected_worth(
    setup: Setup, known: Sequence[TriedRecipe], candidates: Sequence[Positions], number: int
) -> np.ndarray:
    """How much each candidate is expected to extend the frontier, as a fraction of the frontier's box: [c]."""
    measured = _measured(known)
    offered = [recipe for recipe in known if recipe.is_on_offer and recipe.positions is not None]
    positions = [*(recipe.positions for recipe in measured), *(recipe.positions for recipe in offered), *candidates]
    points = np.stack([points_of(setup.space, present(position, "one")) for position in positions])
    random = np.random.default_rng([setup.seed, number, 1])
    drawn: dict[str, np.ndarray] = {}
    for column in dict.fromkeys([*setup.aims.objectives, *setup.aims.constraints]):
        normals = random.standard_normal((DRAWS // 2, len(positions)))
        model = fit(_seen(setup, measured, points[: len(measured)], column))
        drawn[column] = model.draws(points, np.concatenate([normals, -normals]))
    costs = np.stack([drawn[key] * (-1 if way == "max" else 1) for key, way in setup.aims.objectives.items()], axis=2)
    counts = np.ones(costs.shape[:2], dtype=bool)
    for column, constraint in setup.aims.constraints.items():
        if constraint.at_least is not None:
            counts &= drawn[column] >= constraint.at_least
        if constraint.at_most is not None:
            counts &= drawn[column] <= constraint.at_most
    seen = costs[:, : len(measured)].mean(axis=0)
    best, worst = seen.min(axis=0), seen.max(axis=0)
    reference = worst + BEYOND * (worst - best)
    front, rest = slice(len(measured), len(measured) + len(offered)), slice(len(measured) + len(offered), None)
    gains_of_new = expected_gains(
        costs[:, front], costs[:, rest], reference, front_counts=counts[:, front], candidates_count=counts[:, rest]
    )
    return gains_of_new / max(float(np.prod(reference - best)), 1e-300)


def _seen(setup: Setup, measured: Sequence[TriedRecipe], points: np.ndarray, column: str) -> SeenTrials:
    trials = [
        (row, seed, values[column]) for row, recipe in enumerate(measured) for seed, values in recipe.by_seed.items()
    ]
    recipe, seed, values = (np.array(side) for side in zip(*trials, strict=True))
    return SeenTrials(places=points, groups=groups_of(setup.space), recipe=recipe, seed=seed, values=values)
