"""Lower bounds of epsilon: exact cases, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from smoothsweep.core.metrics.privacy_audit import audit_epsilon, epsilon_of_mu, gaussian_mu, one_run_epsilon, p_value


def test_without_delta_it_is_the_binomial_of_randomised_response():
    right, guesses = 90, 100
    found = one_run_epsilon(right, guesses, canaries=1000, delta=0.0)
    rate = math.exp(found) / (1 + math.exp(found))
    assert binom.sf(right - 1, guesses, rate) == pytest.approx(0.05)
    assert one_run_epsilon(50, guesses, canaries=1000, delta=0.0) == 0.0


def test_delta_costs_and_a_larger_epsilon_explains_more():
    given = {"right": 90, "guesses": 100, "canaries": 1000}
    assert p_value(**given, epsilon=1.0, delta=1e-4) > p_value(**given, epsilon=1.0, delta=0.0)
    assert p_value(**given, epsilon=3.0, delta=0.0) > p_value(**given, epsilon=1.0, delta=0.0)
    by_hand = max(sum(binom.pmf(90 - j, 100, 0.5) for j in range(1, i + 1)) / i for i in range(1, 91))
    expected = binom.sf(89, 100, 0.5) + 2 * 1000 * 1e-4 * by_hand
    assert p_value(**given, epsilon=0.0, delta=1e-4) == pytest.approx(expected)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_epsilon_of_a_gaussian_mechanism_solves_its_equation(mu):
    found = epsilon_of_mu(mu, 1e-5)
    assert norm.cdf(-found / mu + mu / 2) - math.exp(found) * norm.cdf(-found / mu - mu / 2) == pytest.approx(1e-5)
    assert epsilon_of_mu(0.0, 1e-5) == 0.0


def test_bounds_are_rarely_above_the_truth():
    draw, above = np.random.default_rng(0), 0
    for _ in range(300):
        inserted = draw.random(200) < 0.5
        scores = draw.normal(size=200) + 1.0 * inserted
        above += gaussian_mu(scores[inserted], scores[~inserted]) > 1.0
    assert above <= 24  # 5 % of 300, and three standard deviations


def test_randomised_response_is_not_accused_and_memory_is():
    draw, wrong = np.random.default_rng(1), 0
    for _ in range(200):
        inserted = draw.random(300) < 0.5
        told = np.where(draw.random(300) < math.e / (1 + math.e), inserted, ~inserted)
        wrong += audit_epsilon(told + 0.01 * draw.random(300), inserted, delta=0.0).epsilon > 1.0
    assert wrong <= 20
    inserted = draw.random(300) < 0.5
    assert audit_epsilon(10.0 * inserted + draw.random(300), inserted, delta=0.0).epsilon > 3.0


def test_canaries_that_tell_nothing_are_refused():
    for scores, inserted in (([1.0] * 5, [True] * 5), ([1.0] * 20, [True] * 20)):
        with pytest.raises(ValueError, match="canaries: expected"):
            audit_epsilon(scores, inserted, delta=0.0)
