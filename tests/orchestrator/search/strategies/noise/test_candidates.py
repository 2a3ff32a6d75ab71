"""What a noise-aware search may begin: a first design with all ends, then recipes of the space that were not tried."""

import json

import numpy as np
import pytest

from smoothsweep.orchestrator.search.shared.outcomes import Aims
from smoothsweep.orchestrator.search.shared.places import from_shares, groups_of, place, points_of, shares_of
from smoothsweep.orchestrator.search.shared.setup import Setup
from smoothsweep.orchestrator.search.strategies.noise.candidates import first_shares, new_recipes
from smoothsweep.orchestrator.search.strategies.noise.tried import TriedRecipe
from smoothsweep.sweeps.dimension import Dimension
from smoothsweep.sweeps.space import make_space

NAMES = Dimension(key="name", choices=("a", "b", "c"))
STEPS = Dimension(key="steps", low=0.0, high=1.0, step=0.25)
OF_B = Dimension(key="of_b", choices=(1, 2), when={"name": ("b",)})
REAL = Dimension(key="real", low=1e-4, high=1.0, log=True)


def setup_of(*dimensions, **changes):
    return Setup(
        space=make_space(dimensions),
        aims=Aims(objectives={"test_acc": "max"}),
        identity=lambda values: json.dumps(values, sort_keys=True),
        **changes,
    )


def tried(setup, values):
    return TriedRecipe(
        number=0,
        values=values,
        positions=place(setup, values),
        seeds=1,
        of=2,
        by_seed={1: {"test_acc": 0.5}},
        is_open=False,
        has_failed=False,
    )


@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_first_design_holds_both_ends_and_every_level_once(count, seed):
    shares = first_shares(count, 3, np.empty((0, 3)), seed)
    levels = np.linspace(0, 1, count) if count > 1 else [0.5]
    assert all(sorted(column) == pytest.approx(levels) for column in shares.T)


def test_the_first_design_keeps_away_from_what_is_there_and_differs_by_seed():
    there = np.array([[0.0, 0.0]])
    designs = [first_shares(4, 2, there, seed) for seed in range(6)]
    assert all(np.linalg.norm(shares - there, axis=1).min() > 0.3 for shares in designs)
    assert len({shares.tobytes() for shares in designs}) > 1
    assert (designs[0] == first_shares(4, 2, there, 0)).all()


def test_a_small_space_is_compared_as_a_whole_but_for_what_was_tried():
    setup = setup_of(NAMES, STEPS, OF_B)
    known = [tried(setup, {"name": "a", "steps": 0.5}), tried(setup, {"name": "b", "steps": 0.25, "of_b": 2})]
    found = new_recipes(setup, known, number=2)
    assert len(found) == 5 * (1 + 2 + 1) - 2 and all(one.values not in found for one in known)


def test_of_a_range_random_recipes_and_near_ones_are_compared():
    setup = setup_of(NAMES, REAL, seed=5)
    known = [tried(setup, {"name": "b", "real": 0.01})]
    found = new_recipes(setup, known, number=4)
    assert found == new_recipes(setup, known, number=4) != new_recipes(setup, known, number=5)
    assert all(setup.space.positions(values) is not None for values in found)
    shares = np.array([shares_of(setup.space, place(setup, values))[1] for values in found])
    assert shares.min() < 0.05 and shares.max() > 0.95
    near = np.mean(abs(shares - 0.5) < 0.15)  # 0.01 lies in the middle of the logarithm
    assert near > 0.3 + 0.05  # of random ones alone: 0.3


def test_recipes_as_points():
    setup = setup_of(NAMES, STEPS, OF_B, REAL)
    ends = [{"name": "a", "steps": 0.0, "real": 1e-4}, {"name": "c", "steps": 1.0, "real": 1.0}]
    one, other = (points_of(setup.space, place(setup, values)) for values in ends)
    groups, gaps = groups_of(setup.space), (one - other) ** 2
    by_key = {key: gaps[groups == index].sum() for index, key in enumerate(setup.space.keys)}
    assert by_key == {"name": pytest.approx(1.0), "steps": 1.0, "of_b": 0.0, "real": pytest.approx(1.0)}
    for values in ({"name": "b", "steps": 0.75, "of_b": 2, "real": 0.5}, *ends):
        again = from_shares(setup.space, shares_of(setup.space, place(setup, values)))
        assert {**again, "real": 0} == {**values, "real": 0} and again["real"] == pytest.approx(values["real"])
