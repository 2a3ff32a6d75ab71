"""What a noise-aware search may begin: a first design with all ends, then recipes of the space that were not tried."""

import json

import numpy as np
import pytest

from smoothsweep.orchestrator.search.shared.outcomes import Aims
from smoothsweep.orchestrator.search.shared.places import place
from smoothsweep.orchestrator.search.shared.setup import Setup
from smoothsweep.orchestrator.search.strategies.noise.candidates import first_shares, new_recipes
from smoothsweep.orchestrator.search.strategies.noise.tried import TriedRecipe
from smoothsweep.sweeps.space import Dimension, make_space

NAMES = Dimension(key="name", choices=("a", "b", "c"))
STEPS = Dimension(key="steps", low=0.0, high=1.0, step=0.25)
OF_B = Dimension(key="of_b", choices=(1, 2), when={"name": ("b",)})


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


def test_a_small_space_is_compared_as_a_whole_but_for_what_was_tried():
    setup = setup_of(NAMES, STEPS, OF_B)
    known = [tried(setup, {"name": "a", "steps": 0.5}), tried(setup, {"name": "b", "steps": 0.25, "of_b": 2})]
    found = new_recipes(setup, known, number=2)
    assert len(found) == 5 * (1 + 2 + 1) - 2 and all(one.values not in found for one in known)
