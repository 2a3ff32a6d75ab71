"""The model of what trials scatter, beside the same worked out by dense conditioning and by hand."""

import numpy as np
import pytest

from smoothsweep.orchestrator.search.strategies.noise.noise_model import (
    PRIOR_DF,
    NoiseModel,
    SeenTrials,
    fit,
    shrunk_variances,
)


def seen(values, recipe, seed, places):
    places = np.asarray(places, dtype=float).reshape(len(places), -1)
    return SeenTrials(
        places=places,
        groups=np.arange(places.shape[1]),
        recipe=np.array(recipe),
        seed=np.array(seed),
        values=np.array(values, dtype=float),
    )


def test_the_posterior_is_that_of_conditioning_one_normal_distribution():
    given = seen([1.0, 1.4, 0.2, 0.9], [0, 0, 1, 2], [1, 2, 1, 2], [0.1, 0.5, 0.9])
    noise = np.array([0.05, 0.2, 0.1])
    model = NoiseModel(seen=given, lengths=np.array([0.4]), signal=1.3, noise=noise, seed=0.07, shift=0.5, scale=2.0)
    asked = np.array([[0.3], [0.9]])

    def kernel(a, b):
        gap = np.sqrt(5) * abs(a - b) / 0.4
        return 1.3 * (1 + gap + gap * gap / 3) * np.exp(-gap)

    at = [*asked[:, 0], *(given.places[row, 0] for row in given.recipe)]
    joint = np.array([[kernel(a, b) for b in at] for a in at])
    for i in range(4):
        joint[2 + i, 2 + i] += noise[given.recipe[i]]
        for j in range(4):
            joint[2 + i, 2 + j] += 0.07 * (given.seed[i] == given.seed[j])
    inverse = np.linalg.inv(joint[2:, 2:])
    mean = 0.5 + 2.0 * joint[:2, 2:] @ inverse @ ((given.values - 0.5) / 2.0)
    covariance = 4.0 * (joint[:2, :2] - joint[:2, 2:] @ inverse @ joint[2:, :2])
    found_mean, found_covariance = model.posterior(asked)
    assert found_mean == pytest.approx(mean) and found_covariance == pytest.approx(covariance)
    normals = np.random.default_rng(0).standard_normal((40_000, 2))
    drawn = model.draws(asked, normals)
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.03)
    assert np.cov(drawn.T) == pytest.approx(covariance, abs=0.05)


def test_variances_are_shrunk_to_the_pooled_one():
    """Three recipes under two seeds that differ by 6, 0 and 0: beside the mean of 2, by 4, -2 and -2."""
    found = shrunk_variances(
        np.array([0.0, 6.0, 0.0, 0.0, 5.0, 5.0]), np.array([0, 0, 1, 1, 2, 2]), np.array([4, 9] * 3), 1.0
    )
    own = np.array([4.0, -2.0, -2.0]) ** 2 / 2
    assert found == pytest.approx((PRIOR_DF * 1.0 + own) / (PRIOR_DF + 1))
    alone = shrunk_variances(np.array([1.0, 3.0]), np.array([0, 1]), np.array([4, 4]), 0.3)
    assert alone == pytest.approx([0.3, 0.3])


def test_a_recipe_that_scatters_more_is_told_apart_from_one_that_does_not():
    random = np.random.default_rng(3)
    places = np.linspace(0, 1, 8)
    recipe, seed = np.repeat(np.arange(8), 3), np.tile([1, 2, 3], 8)
    spread = np.where(recipe == 2, 0.5, 0.02)
    values = np.sin(3 * places)[recipe] + spread * random.standard_normal(24)
    model = fit(seen(values, recipe, seed, places))
    assert model.noise[2] > 2 * np.delete(model.noise, 2).max()
    mean, covariance = model.posterior(places[:, None])
    sure = np.sqrt(np.diag(covariance))
    assert sure[2] > sure[3] and np.delete(mean, 2) == pytest.approx(np.delete(np.sin(3 * places), 2), abs=0.15)


def test_what_a_seed_does_to_every_recipe_is_no_difference_of_recipes():
    """The recipes that met the second seed alone are no better than the others, since all are under it."""
    places = np.linspace(0, 1, 10)
    recipe = np.array([*range(10), *range(5)])
    seed = np.array([1] * 10 + [2] * 5)
    random = np.random.default_rng(1)
    values = places[recipe] + 1.0 * (seed == 2) + 0.01 * random.standard_normal(15)
    mean, _ = fit(seen(values, recipe, seed, places)).posterior(places[:, None])
    assert np.polyfit(places, mean, 1)[0] == pytest.approx(1.0, abs=0.25)
