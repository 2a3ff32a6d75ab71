"""Who goes on: closed-form cases of ranks, crowding, survivors and audits; outcomes over seeds and attacks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made import ALPHA

from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import (
    Aims,
    Setup,
    Wait,
    ordered,
    propose_halving,
    survivors,
    worst_by_seed,
)
from smoothsweep.sweeps.search import Constraint, Rung
from smoothsweep.sweeps.space import Dimension, make_space

WAYS = {"test_acc": "max", "leak": "min"}
AIMS = Aims(objectives=WAYS, constraints={"test_acc": Constraint(at_least=0.5)})
points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def outcomes(*pairs):
    return {number: AIMS.outcome({"test_acc": acc, "leak": leak}) for number, (acc, leak) in enumerate(pairs)}


@given(points)
def test_a_point_that_is_beaten_comes_after_what_beats_it(given_points):
    matrix = np.array(given_points, dtype=float)
    order = ordered(matrix, ["max", "min"])
    assert sorted(order) == list(range(len(matrix)))
    for place, index in enumerate(order):
        later = matrix[order[place + 1 :]]
        beats = (later[:, 0] >= matrix[index, 0]) & (later[:, 1] <= matrix[index, 1])
        assert (later[beats] == matrix[index]).all()


def through(found, count):
    """The numbers of those that survive, of this many at most."""
    entered = [Proposal(number=number, values={}, rung=0) for number in found]
    return [one.number for one in survivors(setup(keep=count / max(1, len(found))), entered, found, 0)]


def test_the_best_are_of_the_first_front_its_ends_before_its_middle():
    found = outcomes((0.9, 0.9), (0.8, 0.5), (0.7, 0.4), (0.6, 0.1), (0.6, 0.5))
    assert through(found, 2) == [0, 3]
    assert through(found, 4) == [0, 3, 1, 2]


def test_recipes_that_miss_a_constraint_do_not_go_on_unless_all_do():
    assert through(outcomes((0.4, 0.0), (0.6, 0.9), (0.3, 0.0)), 2) == [1]
    assert through(outcomes((0.1, 0.0), (0.4, 0.9), (0.4, 0.1)), 2) == [1]  # misses it by least; ties to the first
    assert survivors(setup(), [], {}, 0) == []


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


def test_under_a_seed_the_worst_attack_counts():
    rows = [(1, {"x": 0.2}), (1, {"x": 0.6}), (2, {"x": 0.4}), (2, {"x": 0.1})]
    assert worst_by_seed(rows, "x", "min") == {1: 0.6, 2: 0.4}
    assert worst_by_seed(rows, "x", "max") == {1: 0.2, 2: 0.1}  # a distance: small is the attacker's
    assert worst_by_seed([*rows, (2, {"x": None})], "x", "min") == {}
    assert worst_by_seed([*rows, (2, {"x": float("nan")})], "x", "min") == {}
