"""Expected improvement of the frontier, beside differences of hypervolumes."""

import numpy as np
import pytest

from smoothsweep.core.metrics.frontier import hypervolume
from smoothsweep.orchestrator.search.strategies.noise.improvement import expected_gains, gains


@pytest.mark.parametrize("objectives", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_gain_is_a_difference_of_hypervolumes(objectives, seed):
    random = np.random.default_rng(seed)
    front, candidates = random.random((6, objectives)), 1.2 * random.random((9, objectives))
    reference, ways = np.full(objectives, 0.9), ["min"] * objectives
    before = hypervolume(front, reference, ways)
    after = [hypervolume(np.vstack([front, one]), reference, ways) for one in candidates]
    assert gains(front, candidates, reference) == pytest.approx(np.array(after) - before, abs=1e-12)
    alone = [hypervolume(one[None], reference, ways) for one in candidates]
    assert gains(front[:0], candidates, reference) == pytest.approx(np.array(alone), abs=1e-12)


def test_with_one_objective_it_is_the_improvement():
    candidates = np.array([[0.1], [0.5], [2.0]])
    assert gains(np.array([[0.4], [0.6]]), candidates, np.array([1.0])) == pytest.approx([0.3, 0.0, 0.0])
    assert gains(np.empty((0, 1)), candidates, np.array([1.0])) == pytest.approx([0.9, 0.5, 0.0])


def test_what_hides_a_candidate_in_some_draws_alone_hides_it_in_these_alone():
    front = np.array([[[0.2, 0.2]], [[0.8, 0.8]]])  # lucky in the first draw
    candidate = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    reference = np.array([1.0, 1.0])
    assert expected_gains(front, candidate, reference) == pytest.approx([(0.0 + 0.25 - 0.04) / 2])


def test_what_misses_a_constraint_counts_for_nothing():
    front = np.array([[[0.2, 0.2]], [[0.2, 0.2]]])
    candidates = np.array([[[0.5, 0.5], [0.1, 0.1]], [[0.5, 0.5], [0.1, 0.1]]])
    met = expected_gains(
        front,
        candidates,
        np.array([1.0, 1.0]),
        front_counts=np.array([[False], [True]]),
        candidates_count=np.array([[True, True], [True, False]]),
    )
    assert met == pytest.approx([0.25 / 2, 0.81 / 2])
