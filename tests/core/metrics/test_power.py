"""What a sweep can tell and what would settle a comparison: simulated sweeps, components put in and found again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.leak_comparisons import Bounded, reductions
from smoothsweep.core.metrics.power import (
    QUICKSTART,
    Components,
    Design,
    Needed,
    components_of,
    needed,
    planned,
    seeds_to_detect,
    weights_against_baseline,
)
from smoothsweep.core.metrics.verdicts import Dunnett, contrast_errors

WEAK_ATTACK = 0.4  # how much less every further attack finds


def drawn(components, design, difference, draws=1):
    """Leaks [draws, recipes, attacks, seeds, classes] of normal sweeps: half of the variance of every component is
    either recipe's, and one leaks less by `difference`."""
    generator = np.random.default_rng(11)
    seed, person, cell = (
        value / np.sqrt(2) for value in (components.seed, components.person, np.sqrt(components.of_cell(design.images)))
    )
    shape = (draws, design.recipes, design.attacks, design.seeds, design.classes)
    cells = 0.7 + generator.normal(0, cell, shape) + generator.normal(0, 0.2, (draws, 1, 1, 1, shape[4]))
    cells += generator.normal(0, seed, (*shape[:4], 1)) + generator.normal(0, person, (*shape[:3], 1, shape[4]))
    cells -= WEAK_ATTACK * np.arange(shape[2])[:, None, None]
    cells[:, 1] -= difference
    return cells


def named(cells):
    recipes, attacks = cells.shape[:2]
    return {f"r{r}": {f"a{a}": cells[r, a] for a in range(attacks)} for r in range(recipes)}


ONE_ATTACK = [(2, 10, 2), (2, 24, 4), (3, 24, 2), (3, 24, 4), (5, 12, 3), (8, 48, 4)]


@pytest.mark.parametrize(("seeds", "classes", "recipes"), ONE_ATTACK)
def test_the_difference_that_is_told_is_found_in_four_of_five_sweeps(seeds, classes, recipes):
    """By the rule of comparisons, of many sweeps at once; of the first few by the function that a report calls."""
    design, draws = Design(seeds=seeds, classes=classes, recipes=recipes, images=4), 1000
    found = planned(QUICKSTART, design)
    cells = drawn(QUICKSTART, design, found.tells, draws)
    gaps = (cells[:, 0] - cells[:, 1]).mean(axis=(1, 2, 3))
    halves = contrast_errors(cells, weights_against_baseline(recipes, 1, 0)[:1]).half_widths(
        gaps[:, None], 0.05, Dunnett(comparisons=recipes - 1, recipes=recipes)
    )[:, 0]
    assert (gaps > halves).mean() == pytest.approx(0.8, abs=3 * np.sqrt(0.8 * 0.2 / draws))
    assert halves.mean() == pytest.approx(found.half, rel=0.06)
    for leaks, gap, half in zip(cells[:8], gaps, halves, strict=False):
        shipped = reductions(named(leaks), baseline="r0")["r1"]
        assert (shipped.low, shipped.high) == pytest.approx((gap - half, gap + half))


def test_with_several_attacks_it_is_found_at_least_as_often():
    """The guard averages over attacks. The plan does not count on what that gains."""
    design, draws = Design(seeds=3, classes=24, recipes=4, attacks=3, images=4), 150
    found = planned(QUICKSTART, design)
    cells = drawn(QUICKSTART, design, found.tells, draws)
    told = [reductions(named(leaks), baseline="r0")["r1"] for leaks in cells]
    power = np.mean([one.above_zero for one in told])
    assert 0.8 - 3 * np.sqrt(0.8 * 0.2 / draws) <= power <= 0.94
    assert np.mean([one.high - one.low for one in told]) / 2 <= found.half * 1.03


def test_with_many_seeds_and_classes_it_is_the_formula():
    """Then nothing is left to estimate: quantile times standard error, and the normal quantile of 80 % beyond it."""
    design = Design(seeds=400, classes=400, recipes=4, attacks=2, images=4)
    found = planned(QUICKSTART, design)
    error = np.sqrt(0.032**2 / 400 + 0.142**2 / 400 + (0.1485**2 + 0.4865**2 / 4) / 400**2)
    quantile = float(Dunnett(comparisons=6).quantiles(1e6, 0.05))
    assert found.error == pytest.approx(error)
    assert found.half == pytest.approx(quantile * error, rel=0.04)
    assert found.tells == pytest.approx((quantile + 0.8416) * error, rel=0.04)


COMPONENTS = st.builds(
    Components, seed=st.floats(0, 0.2), person=st.floats(0, 0.3), cell=st.floats(0.01, 0.3), image=st.floats(0, 0.7)
)
DESIGNS = st.builds(
    Design,
    seeds=st.integers(2, 12),
    classes=st.integers(2, 60),
    recipes=st.integers(2, 9),
    attacks=st.integers(1, 5),
    images=st.integers(1, 9),
)


@settings(deadline=None, max_examples=60)
@given(components=COMPONENTS, design=DESIGNS, more=st.sampled_from(["seeds", "classes", "images"]))
def test_more_of_anything_errs_no_more_and_more_classes_tell_more(components, design, more):
    found, bigger = (planned(components, replace(design, **{more: times * getattr(design, more)})) for times in (1, 2))
    assert bigger.error <= found.error * (1 + 1e-9)
    # With several attacks, more classes leave the seeds a larger share, which attacks have in common: fewer freedoms.
    assert more != "classes" or design.attacks > 1 or bigger.tells <= found.tells * 1.02


@settings(deadline=None, max_examples=30)
@given(components=COMPONENTS, design=DESIGNS, difference=st.floats(0.02, 0.6))
def test_the_number_of_seeds_is_the_least_that_tells(components, design, difference):
    found = seeds_to_detect(components, design, difference)
    numbers = range(2, 51) if found is None else (found, max(2, found - 1))
    tells = {n: planned(components, replace(design, seeds=n)).tells <= difference for n in numbers}
    assert found is not None or not any(tells.values())
    assert found is None or (tells[found] and (found == 2 or not tells[found - 1]))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"seeds": 1}, "--tell 10: expected a sweep of at least 2 seeds, got 1"),
        ({"classes": 1}, "--tell 10: expected a sweep of at least 2 classes, got 1"),
        ({"recipes": 1}, "--tell 10: expected a sweep of at least 2 recipes, got 1"),
    ],
)
def test_what_can_tell_no_difference_is_refused(change, line):
    with pytest.raises(InputError, match=line):
        replace(Design(seeds=3, classes=24), **change).checked("--tell 10")


def normal_cells(generator, shape, seed, person, cell):
    cells = 0.5 + generator.normal(0, cell, shape) + generator.normal(0, 0.3, (1, 1, 1, shape[3]))
    cells += generator.normal(0, seed, (*shape[:3], 1))
    return cells + generator.normal(0, person, (*shape[:2], 1, shape[3]))


def mean_of(found, name):
    return np.sqrt(np.mean([getattr(one, name) ** 2 for one in found]))


@pytest.mark.parametrize("baseline", [0, 2])
def test_seeds_persons_and_cells_are_told_apart(baseline):
    """A difference varies by twice what a single column does."""
    generator = np.random.default_rng(2)
    found = [
        components_of(normal_cells(generator, (4, 2, 5, 30), 0.05, 0.1, 0.2), baseline=baseline) for _ in range(60)
    ]
    for name, single in (("seed", 0.05), ("person", 0.1), ("cell", 0.2)):
        assert mean_of(found, name) == pytest.approx(np.sqrt(2) * single, rel=0.08)
    assert all(one.image is None for one in found)


def test_the_chance_of_images_is_taken_apart_from_the_cell():
    generator, images = np.random.default_rng(5), 4
    chances = np.clip(normal_cells(generator, (3, 2, 4, 4000), 0.0, 0.1, 0.1), 0.0, 1.0)
    found = components_of(generator.binomial(images, chances) / images, images=images)
    assert found.image == pytest.approx(np.sqrt(2 * (chances * (1 - chances)).mean()), rel=0.02)
    clipped = np.sqrt(2) * 0.1
    assert found.cell == pytest.approx(clipped, rel=0.1) and found.person == pytest.approx(clipped, rel=0.1)
    assert found.of_cell(images) == pytest.approx(found.cell**2 + found.image**2 / 4)


def test_a_leak_without_classes_has_a_single_component():
    cells = np.random.default_rng(1).normal(0, 0.1, (9, 1, 40, 1))
    found = components_of(cells)
    assert (found.seed, found.person, found.image) == (0.0, 0.0, None)
    assert found.cell == pytest.approx(np.sqrt(2) * 0.1, rel=0.1)


SEED, PERSON, CELL = 0.03, 0.1, 0.2  # of a single recipe


def small_sweep(generator, seeds, classes, lower=(0.0, 0.1, 0.02, 0.0), wild=1.0):
    """[recipes, 1, seeds, classes]; the trainings of the third recipe vary `wild` times as much."""
    recipes = len(lower)
    training = generator.normal(0, SEED, (recipes, 1, seeds, 1)) * np.array([1, 1, wild, 1])[:, None, None, None]
    cells = generator.normal(0, CELL, (recipes, 1, seeds, classes)) + training
    cells += generator.normal(0, PERSON, (recipes, 1, 1, classes))
    return 0.6 + cells - np.array(lower)[:, None, None, None]


def bounds(**values):
    return {int(name[1:]): Bounded(value=value, low=value - 0.2, high=value + 0.2) for name, value in values.items()}


def test_it_is_what_the_plan_says_of_this_recipes_difference():
    cells = small_sweep(np.random.default_rng(1), 4, 40)
    found = needed(cells, 0, bounds(r1=0.12, r3=-0.12))
    for recipe in (1, 3):
        seeds = found[recipe].seeds
        assert planned(components_of(cells), Design(seeds=seeds, classes=40, recipes=4)).tells <= 0.121
        assert found[recipe] == Needed(seeds=seeds, classes=40)


def test_where_no_seeds_would_do_more_classes_are_named_if_there_are_any():
    cells = small_sweep(np.random.default_rng(4), 3, 12)
    for available in (None, 12):
        assert needed(cells, 0, bounds(r1=0.05), available=available)[1] == Needed(seeds=None, classes=None)
    more = needed(cells, 0, bounds(r1=0.05), available=400)[1]
    assert more.more_classes and more.classes == 400 and 2 <= more.seeds <= 50
    assert needed(cells, 0, bounds(r1=0.0), available=400)[1].seeds is None


def test_nothing_is_said_of_what_is_too_small_to_matter():
    cells = small_sweep(np.random.default_rng(5), 3, 12)
    within = {1: Bounded(value=0.01, low=-0.02, high=0.04), 2: Bounded(value=0.01, low=-0.02, high=0.06)}
    assert set(needed(cells, 0, within, smallest=0.05)) == {2}
    assert set(needed(cells, 0, within)) == {1, 2}
