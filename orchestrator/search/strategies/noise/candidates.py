"""Recipes that a noise-aware search may begin: the first ones, spread evenly, then those that its model compares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smoothsweep.orchestrator.search.shared.places import from_shares, shares_of
from smoothsweep.orchestrator.search.shared.setup import Setup
from smoothsweep.orchestrator.search.strategies.noise.tried import TriedRecipe
from smoothsweep.sweeps.space import Values

TRIES = 50  # random designs of which the one with the widest gaps is taken
MOST = 512  # recipes that the model compares; a smaller space is compared as a whole
NEAR = 128  # of them so many near recipes that were tried
OTHERS_MOVE = 0.3  # probability that a dimension is moved beside the one that is
STEP = 0.15  # standard deviation of a step to a near recipe, as a share of a dimension


def first_shares(count: int, dimensions: int, others: np.ndarray, seed: int) -> np.ndarray:
    """Shares [count, dimensions] in [0, 1]: a Latin hypercube that holds both ends of every dimension.

    Of TRIES random ones that whose smallest distance is largest (Morris and Mitchell, 1995), distances to the recipes
    that are there already (`others` [n, dimensions]) included.
    """
    random = np.random.default_rng([seed, count, dimensions])
    levels = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    best, widest = np.empty((0, dimensions)), -1.0
    for _ in range(TRIES):
        shares = np.stack([random.permutation(levels) for _ in range(dimensions)], axis=1)
        points = np.concatenate([shares, others])
        gaps = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        gap = gaps[np.triu_indices(len(points), k=1)].min(initial=np.inf)
        if gap > widest:
            best, widest = shares, gap
    return best


def new_recipes(setup: Setup, known: Sequence[TriedRecipe], number: int) -> list[Values]:
    """Recipes of the space that were not tried: all of a small space, else random ones and some near those tried.

    Some of them may be no valid recipes, or the same work as one that was tried.
    """
    space = setup.space
    if all(dimension.values is not None for dimension in space.dimensions) and not space.is_larger_than(MOST):
        designs = list(space.enumerate())
    else:
        random = np.random.default_rng([setup.seed, number, 0])
        designs = [space.sample(random) for _ in range(MOST - NEAR)]
        centres = [
            shares_of(space, tried.positions) for tried in known if tried.positions is not None and tried.by_seed
        ]
        for index in range(NEAR if centres else 0):
            centre = centres[index % len(centres)]
            moved = random.random(len(centre)) < OTHERS_MOVE
            moved[random.integers(len(centre))] = True
            steps = moved * random.normal(0.0, STEP, len(centre))
            designs.append(from_shares(space, np.clip(centre + steps, 0.0, 1.0)))
    there = {repr(sorted(tried.values.items())) for tried in known}
    fresh = {text: values for values in designs if (text := repr(sorted(values.items()))) not in there}
    return list(fresh.values())
