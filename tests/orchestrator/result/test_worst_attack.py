"""Which attack counts against a recipe: the one that finds most, whichever way its judge's numbers run."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.orchestrator.result.estimates import Sample
from smoothsweep.orchestrator.result.evidence import Cells

UP, DOWN = ("embedder_acc1", "attack_acc1", "xi_train"), ("dist_face", "dist_eval", "fid")
"""Leak metrics of which more, and of which less, is a stronger attack."""


def worst_rows(frame, metric, access=None):
    """Recipe -> its row, every cell of one seed."""
    samples = tuple({metric: {0: Sample(value=value)}} for value in frame[metric])
    return Cells(frame=frame, samples=samples).worst(metric, access)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    recipes=st.integers(2, 5),
    attacks=st.integers(2, 5),
    metric=st.sampled_from((*UP, *DOWN)),
    access=st.sampled_from([None, *ACCESS_LEVELS[1:]]),
)
def test_it_is_the_strongest_of_those_that_are_asked_about(seed, recipes, attacks, metric, access):
    """Every recipe has met every attack; rows lie in no order, and controls, which find most here, are no attacks."""
    draw = np.random.default_rng(seed)
    rows = [
        {
            "recipe": f"r{recipe}",
            "attack": f"a{attack}",
            "control": False,
            metric: draw.uniform(0.1, 0.9),
            "access": ACCESS_LEVELS[1 + attack % (len(ACCESS_LEVELS) - 1)],
        }
        for recipe in range(recipes)
        for attack in range(attacks)
    ]
    rows += [
        {
            "recipe": f"r{recipe}",
            "attack": "control",
            "control": True,
            "access": ACCESS_LEVELS[0],
            metric: 1.0 if metric in UP else 0.0,
        }
        for recipe in range(recipes)
    ]
    frame = pd.DataFrame([rows[at] for at in draw.permutation(len(rows))])
    expected = {}
    for row, one in frame.iterrows():
        seen = access is None or ACCESS_LEVELS.index(one["access"]) <= ACCESS_LEVELS.index(access)
        if one["control"] or not seen:
            continue
        stands = expected.get(one["recipe"])
        stronger = stands is None or (one[metric] > frame.loc[stands, metric]) == (metric in UP)
        expected[one["recipe"]] = row if stronger else stands
    assert worst_rows(frame, metric, access) == expected
