"""The model of comparisons: mean squares by hand, column by column, and variances that a simulation confirms."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.metrics.verdicts import contrast_errors

SHAPES = st.tuples(st.integers(2, 4), st.integers(1, 3), st.integers(2, 4), st.integers(2, 5))


def kind(one, other):
    return one[0] == other[0], one[1] == other[1]


def pooled_by_hand(deviations, weights, recipes):
    """Sum over all pairs of columns: weight times weight times the mean product of the columns of their kind."""
    columns = [column for column in product(*map(range, deviations.shape[:2])) if column[0] in recipes]
    products = {}
    for one, other in product(columns, columns):
        products.setdefault(kind(one, other), []).append((deviations[one] * deviations[other]).sum())
    return sum(
        weights[one] * weights[other] * np.mean(products[kind(one, other)]) for one, other in product(columns, columns)
    )


def by_hand(cells, weights):
    """Variances of the seeds' part and of the classes' part of one contrast, straight from the formulas."""
    recipes, _, seeds, classes = cells.shape
    held = [recipe for recipe in range(recipes) if weights[recipe].any()]
    by_seed = cells.mean(axis=3) - cells.mean(axis=(2, 3))[..., None]
    ms_seeds = max(classes * pooled_by_hand(by_seed, weights, among) / (seeds - 1) for among in (range(recipes), held))
    residual = (
        cells - cells.mean(axis=3)[..., None] - cells.mean(axis=2)[:, :, None] + cells.mean((2, 3))[..., None, None]
    )
    ms_residual = pooled_by_hand(residual, weights, range(recipes)) / ((seeds - 1) * (classes - 1))
    table = np.tensordot(weights, cells, axes=2)
    ms_classes = seeds * table.mean(axis=0).var(ddof=1)
    over = seeds * classes
    return ms_seeds / over, max(0.0, ms_classes - ms_residual, ms_classes - ms_seeds) / over


@settings(deadline=None, max_examples=40)
@given(shape=SHAPES, seed=st.integers(0, 10_000))
def test_variances_are_those_of_the_formulas(shape, seed):
    rng = np.random.default_rng(seed)
    cells = (
        rng.normal(size=shape) + 3 * rng.normal(size=(*shape[:3], 1)) + 2 * rng.normal(size=(*shape[:2], 1, shape[3]))
    )
    weights = np.zeros((3, *shape[:2]))
    for row in weights:
        one, other = rng.choice(shape[0], 2, replace=False)
        row[one], row[other] = rng.normal(size=shape[1]), rng.normal(size=shape[1])
        row[other] -= row.sum() / shape[1]
    found = contrast_errors(cells, weights)
    expected = np.array([by_hand(cells, row) for row in weights]).T
    np.testing.assert_allclose(found.variances, expected, rtol=1e-9, atol=1e-12)
    assert found.freedoms.tolist() == [(shape[0] - 1) * (shape[2] - 1), shape[3] - 1]


def test_attacks_that_share_a_training_are_one_to_the_guard_and_unlike_ones_many():
    rng, weights = np.random.default_rng(5), np.zeros((1, 4, 3))
    weights[0, 0, 0], weights[0, 1, 0] = 1, -1
    unlike = rng.normal(size=(4, 3, 200, 1))
    same = np.broadcast_to(unlike[:, :1], unlike.shape)
    free = [contrast_errors(cells, weights).guard.freedoms[0].item() for cells in (unlike, same)]
    assert free[0] == pytest.approx(3 * 199, rel=0.05)
    assert free[1] == pytest.approx(199)


@pytest.mark.parametrize("attacks", [1, 4])
def test_the_variance_is_that_of_the_mean_difference(attacks):
    """Columns of one recipe share a training: treated as independent, they would give far too little."""
    rng, recipes, seeds, classes, draws = np.random.default_rng(2), 5, 4, 12, 3000
    shape = (draws, recipes, attacks, seeds, classes)
    training = rng.normal(size=(draws, recipes, 1, seeds, 1))
    people = rng.normal(size=(draws, recipes, attacks, 1, classes))
    cells = 2 * training + people + rng.normal(size=shape)
    weights = np.zeros((1, recipes, attacks))
    weights[0, 0, 0], weights[0, 1, attacks - 1] = 1, -1
    true = 2 * (4 / seeds + 1 / classes + 1 / (seeds * classes))
    gaps = np.einsum("nra,dra->dn", weights, cells.mean(axis=(3, 4)))[:, 0]
    assert gaps.var() == pytest.approx(true, rel=0.08)
    # The guard takes the larger of two estimates, so the average lies somewhat above the truth, never below.
    assert true * 0.97 <= contrast_errors(cells, weights).variances.sum(axis=0).mean() <= 1.4 * true


def test_a_recipe_whose_trainings_vary_more_is_guarded_against():
    rng = np.random.default_rng(4)
    cells = rng.normal(size=(6, 2, 3, 20))
    cells[0] += np.array([-4.0, 0.0, 4.0])[None, :, None]
    weights = np.zeros((2, 6, 2))
    weights[0, 0, 0], weights[0, 1, 0], weights[1, 1, 0], weights[1, 2, 0] = 1, -1, 1, -1
    wild, tame = contrast_errors(cells, weights).variances[0]
    assert wild > 2.5 * tame


def test_three_recipes_in_a_contrast_are_refused():
    weights = np.array([[[1.0], [-0.5], [-0.5]]])
    with pytest.raises(ValueError, match="one or two recipes"):
        contrast_errors(np.zeros((3, 1, 2, 2)), weights)
