"""How much would settle a comparison: found again by simulating sweeps of that size."""

import numpy as np
import pytest

from smoothsweep.core.metrics.components import components_of
from smoothsweep.core.metrics.needed import Needed, needed
from smoothsweep.core.metrics.power import Design, planned
from smoothsweep.core.metrics.reduction import Bounded, reductions

SEED, PERSON, CELL = 0.03, 0.1, 0.2  # of a single recipe


def drawn(generator, seeds, classes, lower=(0.0, 0.1, 0.02, 0.0), wild=1.0):
    """[recipes, 1, seeds, classes]; the trainings of the third recipe vary `wild` times as much."""
    recipes = len(lower)
    training = generator.normal(0, SEED, (recipes, 1, seeds, 1)) * np.array([1, 1, wild, 1])[:, None, None, None]
    cells = generator.normal(0, CELL, (recipes, 1, seeds, classes)) + training
    cells += generator.normal(0, PERSON, (recipes, 1, 1, classes))
    return 0.6 + cells - np.array(lower)[:, None, None, None]


def bounds(**values):
    return {int(name[1:]): Bounded(value=value, low=value - 0.2, high=value + 0.2) for name, value in values.items()}


def test_so_many_seeds_find_the_estimated_difference_in_four_of_five_sweeps():
    """Components are estimated from a sweep so large that they are the true ones."""
    generator = np.random.default_rng(0)
    found = needed(drawn(generator, 60, 200), 0, bounds(r1=0.1))
    assert found[1].seeds == 61, "seeds that there are are not asked for again"
    pooled = components_of(drawn(generator, 40, 200))
    assert pooled.cell == pytest.approx(np.sqrt(2) * CELL, rel=0.05)
    cells = drawn(np.random.default_rng(8), 3, 60)
    seeds = needed(cells, 0, bounds(r1=0.1))[1].seeds
    told = [
        reductions({f"r{r}": {"a": one[r, 0]} for r in range(4)}, baseline="r0")["r1"].above_zero
        for one in (drawn(generator, seeds, 60) for _ in range(60))
    ]
    assert 3 < seeds < 20 and np.mean(told) > 0.6


def test_it_is_what_the_plan_says_of_this_recipes_difference():
    cells = drawn(np.random.default_rng(1), 4, 40)
    found = needed(cells, 0, bounds(r1=0.12, r3=-0.12))
    for recipe in (1, 3):
        seeds = found[recipe].seeds
        assert planned(components_of(cells), Design(seeds=seeds, classes=40, recipes=4)).tells <= 0.121
        assert found[recipe] == Needed(seeds=seeds, classes=40)


def test_where_no_seeds_would_do_more_classes_are_named_if_there_are_any():
    cells = drawn(np.random.default_rng(4), 3, 12)
    for available in (None, 12):
        assert needed(cells, 0, bounds(r1=0.05), available=available)[1] == Needed(seeds=None, classes=None)
    more = needed(cells, 0, bounds(r1=0.05), available=400)[1]
    assert more.more_classes and more.classes == 400 and 2 <= more.seeds <= 50
    assert needed(cells, 0, bounds(r1=0.0), available=400)[1].seeds is None


def test_nothing_is_said_of_what_is_too_small_to_matter():
    cells = drawn(np.random.default_rng(5), 3, 12)
    within = {1: Bounded(value=0.01, low=-0.02, high=0.04), 2: Bounded(value=0.01, low=-0.02, high=0.06)}
    assert set(needed(cells, 0, within, smallest=0.05)) == {2}
    assert set(needed(cells, 0, within)) == {1, 2}
