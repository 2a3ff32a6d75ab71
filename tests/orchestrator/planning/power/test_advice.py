"""What is advised is what trying every size finds."""

import itertools
from dataclasses import replace

import pytest

from smoothsweep.core.metrics.components import QUICKSTART
from smoothsweep.core.metrics.power import Design, planned
from smoothsweep.orchestrator.planning.power.advice import Advisor
from smoothsweep.orchestrator.planning.power.costs import Costs

NOW = Design(seeds=3, classes=24, recipes=4, attacks=3, images=4)
COSTS = Costs(now=NOW, trained=48, fixed=30.0, of_seed=4 * 23.0, of_classes=4 * 36.0)


def advisor(**changes):
    return Advisor(**{"components": QUICKSTART, "now": NOW, "available": 48, "costs": COSTS, **changes})


@pytest.mark.parametrize("difference", [0.09, 0.12, 0.2, 0.35])
def test_no_size_that_tells_a_difference_is_much_cheaper(difference):
    found = advisor().cheapest(difference)
    sizes = (replace(NOW, seeds=s, classes=c) for s, c in itertools.product(range(2, 41), range(2, 49)))
    cheapest = min(COSTS.times(one) for one in sizes if planned(QUICKSTART, one).tells <= difference)
    assert found.tells <= difference and cheapest <= found.times <= 1.05 * cheapest


def test_people_are_not_invented():
    """With the 12 classes of the data, person effects alone hide ten points from any number of seeds."""
    few = replace(NOW, classes=12)
    assert advisor(now=few, available=12).cheapest(0.1) is None
    assert advisor(now=few, available=12).seeds_alone(0.1) is None
    assert advisor(now=few, available=60).cheapest(0.1).design.classes <= 60


def test_the_present_classes_are_told_beside_the_cheapest():
    seeds = advisor().seeds_alone(0.15)
    assert planned(QUICKSTART, replace(NOW, seeds=seeds)).tells <= 0.15
    assert planned(QUICKSTART, replace(NOW, seeds=seeds - 1)).tells > 0.15


def test_every_move_costs_at_most_one_more_seed_and_the_best_comes_first():
    moves = advisor().moves()
    assert {move.name for move in moves} == {"seeds", "classes", "reconstructions"}
    seed = next(move for move in moves if move.name == "seeds")
    assert seed.design == replace(NOW, seeds=4)
    assert all(move.times <= seed.times and move.design.classes <= 48 for move in moves)
    prices = [move.times * move.tells**2 for move in moves]
    assert prices == sorted(prices)
    classes = next(move for move in moves if move.name == "classes").design
    one_more = replace(classes, classes=classes.classes + 1)
    assert classes.seeds == 3 and COSTS.seconds(one_more) > COSTS.seconds(seed.design)


def test_what_a_training_costs_decides_between_seeds_and_classes():
    cheap = replace(COSTS, of_seed=1.0, of_classes=500.0)
    dear = replace(COSTS, of_seed=5000.0, of_classes=10.0)
    flat = replace(QUICKSTART, image=None, cell=0.285)
    assert advisor(costs=dear, components=flat).moves()[0].name == "classes"
    wide = replace(flat, seed=0.15, person=0.01)
    assert advisor(costs=cheap, components=wide).moves()[0].name == "seeds"


def test_what_cannot_be_moved_is_not_offered():
    everyone = replace(NOW, classes=48)
    assert [move.name for move in advisor(now=everyone, costs=replace(COSTS, now=everyone)).moves()] == ["seeds"]
    one = replace(NOW, images=1)
    assert "reconstructions" not in {move.name for move in advisor(now=one, costs=replace(COSTS, now=one)).moves()}
    assert advisor(costs=None).moves() == ()


def test_without_costs_seeds_times_classes_count():
    found = advisor(costs=None).cheapest(0.15)
    assert found.times is None and found.tells <= 0.15
