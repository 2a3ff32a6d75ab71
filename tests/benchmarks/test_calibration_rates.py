"""The simulation behind docs/rates.md: it draws what it says, and the shipped functions hold in a small part of it."""

import numpy as np
import pytest

from benchmarks.calibration_rates import BINS, Crowd, coverage, drawn, people_told


@pytest.mark.parametrize("kind", ["logits", "strong", "beta"])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_people_have_the_rate_that_they_should(kind, rate):
    generator = np.random.default_rng(0)
    shares, true = drawn(Crowd(rate=rate, seeds=300, people=600, kind=kind), generator)
    assert shares.shape == (300, 600) and true.shape == (600,)
    assert shares.mean() == pytest.approx(true.mean(), abs=0.006)
    assert true.mean() == pytest.approx(rate, abs=4 * true.std() / np.sqrt(600))


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("crowd", [(1, 24, "logits"), (2, 10, "beta"), (3, 24, "strong"), (5, 5, "logits")])
def test_intervals_of_rates_hold(rate, crowd):
    seeds, people, kind = crowd
    held = coverage(Crowd(rate=rate, seeds=seeds, people=people, kind=kind), draws=150, seed=3)
    assert held >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 150)


def test_people_are_told_as_surely_as_is_said():
    found = people_told(Crowd(rate=0.5, seeds=2, people=16), draws=25, seed=5)
    assert found.covered >= 0.9 and found.error < found.raw
    assert sum(many for *_, many in found.bins) == 25 * 16 and len(found.bins) == len(BINS) - 1
    for said, true, many in found.bins:
        assert abs(said - true) < 3 * np.sqrt(said * (1 - said) / many) + 0.02
