import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.frontier import (
    Frontier,
    accuracy_leak_frontier,
    hypervolume,
    pareto_mask,
)

MINIMISE = {2: ("min", "min"), 3: ("min", "min", "min")}


def clouds(dimensions=(2, 3)):
    """Points on a coarse grid, so that ties and duplicates are common."""
    return st.sampled_from(dimensions).flatmap(
        lambda d: arrays(np.float64, st.tuples(st.integers(1, 12), st.just(d)), elements=st.integers(0, 8))
    )


def dominates(a, b):
    return bool((a <= b).all() and (a < b).any())


def counted_cells(points, reference):
    """Hypervolume of points with whole coordinates: the unit cells below the reference that a point dominates."""
    cells = np.stack(np.meshgrid(*[np.arange(end) for end in reference], indexing="ij"), -1)
    return int((cells[..., None, :] >= points).all(-1).any(-1).sum())


def test_a_frontier_by_hand():
    accuracy = [0.95, 0.94, 0.90, 0.90, 0.80, 0.95]
    leak = [0.50, 0.30, 0.30, 0.10, 0.10, 0.50]
    # 2 is beaten by 1 and 3, 4 by 3; 0 and 5 are one point twice and both stay.
    assert accuracy_leak_frontier(accuracy, leak) == Frontier(members=(0, 5, 1, 3), allowed=(0, 1, 2, 3, 4, 5))


def test_the_constraint_admits_its_own_value_and_can_leave_nothing():
    accuracy, leak = [0.95, 0.90, 0.80], [0.5, 0.4, 0.1]
    assert accuracy_leak_frontier(accuracy, leak, min_accuracy=0.9) == Frontier(members=(0, 1), allowed=(0, 1))
    assert accuracy_leak_frontier(accuracy, leak, min_accuracy=0.96) == Frontier(members=(), allowed=())
    assert accuracy_leak_frontier([], [], min_accuracy=0.9) == Frontier(members=(), allowed=())


def test_a_further_objective_saves_a_dominated_point():
    accuracy, leak, calibration = [0.9, 0.9], [0.2, 0.3], [[0.10], [0.05]]
    assert accuracy_leak_frontier(accuracy, leak).members == (0,)
    found = accuracy_leak_frontier(accuracy, leak, others=calibration, other_directions=("min",))
    assert found.members == (0, 1)
    found = accuracy_leak_frontier(accuracy, leak, others=calibration, other_directions=("max",))
    assert found.members == (0,)


@settings(deadline=None, max_examples=100)
@given(points=clouds())
def test_the_mask_is_what_the_definition_says(points):
    expected = [not any(dominates(other, point) for other in points) for point in points]
    mask = pareto_mask(points, MINIMISE[points.shape[1]])
    assert mask.tolist() == expected
    assert mask.any()
    # A strictly increasing change of scale leaves dominance alone; turning an objective needs the other direction.
    assert pareto_mask(np.exp(points), MINIMISE[points.shape[1]]).tolist() == expected
    assert pareto_mask(-points, ("max",) * points.shape[1]).tolist() == expected


@settings(deadline=None, max_examples=100)
@given(points=clouds(), reference=st.tuples(*[st.integers(0, 8)] * 3))
def test_hypervolume_counts_the_dominated_cells(points, reference):
    reference = reference[: points.shape[1]]
    assert hypervolume(points, reference, MINIMISE[points.shape[1]]) == counted_cells(points, reference)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pareto_mask([[0.1, float("nan")]], ("max", "min")), "finite numbers"),
        (lambda: pareto_mask([[0.1, 0.2]], ("max", "down")), "expected max or min, got 'down'"),
        (lambda: hypervolume([[0.1]], [1], ("min",)), "2 or 3 objectives, got 1"),
        (lambda: accuracy_leak_frontier([0.1], [0.1, 0.2]), "one length"),
        (lambda: accuracy_leak_frontier([0.1], [0.1], min_accuracy=float("nan")), "min_accuracy"),
    ],
)
def test_bad_points_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
