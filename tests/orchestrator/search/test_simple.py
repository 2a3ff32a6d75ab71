"""Who goes on: closed-form cases of ranks, crowding, survivors and audits; outcomes over seeds and attacks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import ALPHA

from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import (
    Aims,
    Setup,
    Wait,
    audits,
    best,
    crowding,
    fronts,
    ordered,
    propose_halving,
    survivors,
    worst_mean,
)
from smoothsweep.sweeps.search import Constraint, Rung
from smoothsweep.sweeps.space import Dimension, make_space

WAYS = {"test_acc": "max", "leak": "min"}
AIMS = Aims(objectives=WAYS, constraints={"test_acc": Constraint(at_least=0.5)})
points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def outcomes(*pairs):
    return {number: AIMS.outcome({"test_acc": acc, "leak": leak}) for number, (acc, leak) in enumerate(pairs)}


def test_fronts_are_peeled_one_after_the_other():
    found = fronts(np.array([[0.9, 0.5], [0.8, 0.4], [0.7, 0.6], [0.9, 0.5], [0.6, 0.7]]), ["max", "min"])
    assert found == [[0, 1, 3], [2], [4]]


@given(points)
def test_every_point_is_in_one_front_and_a_front_never_dominates_itself(given_points):
    matrix = np.array(given_points, dtype=float)
    found = fronts(matrix, ["max", "min"])
    assert sorted(index for front in found for index in front) == list(range(len(matrix)))
    for front in found:
        for one in matrix[front]:
            beaten = (matrix[front] == one).any(axis=1) & (matrix[front, 0] >= one[0]) & (matrix[front, 1] <= one[1])
            assert all((matrix[front][beaten] == one).all(axis=1))
    assert sorted(ordered(matrix, ["max", "min"])) == list(range(len(matrix)))


def test_crowding_by_hand():
    distance = crowding(np.array([[0.0, 1.0], [0.25, 0.5], [0.5, 0.25], [1.0, 0.0]]))
    assert distance[0] == distance[3] == np.inf
    assert distance[1:3] == pytest.approx([0.5 + 0.75, 0.75 + 0.5])
    assert crowding(np.array([[0.5, 0.5], [0.5, 0.5]])).tolist() == [0.0, 0.0]
    assert crowding(np.array([[0.5, 0.5]])).tolist() == [0.0]


def test_the_best_are_of_the_first_front_its_ends_before_its_middle():
    found = outcomes((0.9, 0.9), (0.8, 0.5), (0.7, 0.4), (0.6, 0.1), (0.6, 0.5))
    assert best(found, WAYS, 2) == [0, 3]
    assert best(found, WAYS, 4) == [0, 3, 1, 2]
    assert best(found, WAYS, 9) == [0, 3, 1, 2, 4]


def test_recipes_that_miss_a_constraint_do_not_go_on_unless_all_do():
    assert best(outcomes((0.4, 0.0), (0.6, 0.9)), WAYS, 2) == [1]
    assert best(outcomes((0.1, 0.0), (0.4, 0.9), (0.4, 0.1)), WAYS, 2) == [1]  # misses it by least; ties to the first
    assert best({}, WAYS, 2) == []


def setup(keep=0.5, audit=1, recipes=4):
    return Setup(
        space=make_space([Dimension(key=ALPHA, low=0, high=100, step=1)]),
        aims=AIMS,
        identity=repr,
        recipes=recipes,
        rungs=(Rung(keep=keep, set={"attack.steps": 1}),),
        audit=audit,
    )


def test_halving_step_by_step():
    one, proposals, found = setup(), [], {}
    for _ in range(4):
        proposals.append(propose_halving(one, proposals, found))
    assert [(p.number, p.rung) for p in proposals] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert isinstance(propose_halving(one, proposals, found), Wait)
    found = outcomes((0.9, 0.9), (0.8, 0.95), (0.7, 0.97), (0.6, 0.1))
    for _ in range(3):
        proposals.append(propose_halving(one, proposals, found))
    assert [(p.rung, p.origin, p.of) for p in proposals[4:6]] == [(None, "survivor", 0), (None, "survivor", 3)]
    assert (proposals[6].origin, proposals[6].rung) == ("audit", None) and proposals[6].of in (1, 2)
    assert [p.values for p in proposals[4:]] == [proposals[p.of].values for p in proposals[4:]]
    assert propose_halving(one, proposals, found) is None


@given(keep=st.floats(0.05, 0.95), count=st.integers(1, 12))
def test_the_share_that_survives_is_rounded_up_and_never_nothing(keep, count):
    one = setup(keep=keep)
    entered = [Proposal(number=n, values={ALPHA: float(n)}, rung=0) for n in range(count)]
    found = {n: AIMS.outcome({"test_acc": 0.6 + n / 100, "leak": n / 100}) for n in range(count)}
    through = survivors(one, entered, found, 0)
    assert 1 <= len(through) <= count and keep * count - 1e-6 <= len(through) < keep * count + 1


def test_audits_are_chosen_by_chance_but_always_the_same():
    dropped = [Proposal(number=n, values={}, rung=0) for n in range(9)]
    chosen = audits(setup(audit=3), dropped)
    assert len(chosen) == 3 and chosen == audits(setup(audit=3), dropped[::-1])
    assert audits(setup(audit=20), dropped) == dropped and audits(setup(audit=0), dropped) == []


def test_an_objective_is_the_mean_over_seeds_of_the_worst_attack():
    rows = [(1, {"x": 0.2}), (1, {"x": 0.6}), (2, {"x": 0.4}), (2, {"x": 0.1})]
    assert worst_mean(rows, "x", "min") == pytest.approx((0.6 + 0.4) / 2)
    assert worst_mean(rows, "x", "max") == pytest.approx((0.2 + 0.1) / 2)  # a distance: small is the attacker's
    assert worst_mean([*rows, (2, {"x": None})], "x", "min") is None
    assert worst_mean([*rows, (2, {"x": float("nan")})], "x", "min") is None
