"""Leaks corrected for a judge's error: by hand, at the edges, and how often the interval holds the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.metrics.intervals import bootstrap_mean_interval
from core.metrics.known_error import Rate, corrected_leak

SURE = 10**9


def test_a_judge_without_error_changes_nothing():
    found = corrected_leak(0.4, (0.3, 0.5), sensitivity=Rate(share=1.0, trials=SURE),
                           false_positives=Rate(share=0.0, trials=SURE))  # fmt: skip
    assert (found.value, found.low, found.high) == pytest.approx((0.4, 0.3, 0.5), abs=1e-4)


def test_by_hand():
    found = corrected_leak(0.45, None, sensitivity=Rate(share=0.8, trials=100),
                           false_positives=Rate(share=0.1, trials=100))  # fmt: skip
    assert found.value == pytest.approx(0.5) and found.low is None


@pytest.mark.parametrize(("observed", "value"), [(0.0, 0.0), (0.05, 0.0), (0.1, 0.0), (0.8, 1.0), (1.0, 1.0)])
def test_what_lies_outside_the_judges_range_is_none_or_all(observed, value):
    found = corrected_leak(observed, None, sensitivity=Rate(share=0.8, trials=50),
                           false_positives=Rate(share=0.1, trials=50))  # fmt: skip
    assert found.value == value


def test_a_judge_that_tells_nothing_corrects_nothing():
    assert corrected_leak(0.3, None, sensitivity=Rate(share=0.3, trials=50),
                          false_positives=Rate(share=0.25, trials=50)) is None  # fmt: skip


@given(st.floats(0.05, 0.95), st.integers(5, 500), st.integers(5, 500))
def test_fewer_images_of_a_judge_never_narrow_the_interval(observed, few, more):
    few, more = sorted((few, more))
    widths = []
    for trials in (few, more):
        found = corrected_leak(observed, (observed - 0.05, observed + 0.05), sensitivity=Rate(share=1.0, trials=trials),
                               false_positives=Rate(share=0.0, trials=trials))  # fmt: skip
        widths.append(found.high - found.low)
        assert found.low <= found.value <= found.high
    assert widths[0] >= widths[1] - 1e-9


def test_the_interval_holds_the_truth():
    """Coverage of the whole way, from hits of people under seeds to the corrected leak, at a nominal 95 %."""
    generator, inside, times = np.random.default_rng(1), 0, 150
    sensitivity, false_positives = 0.85, 0.06
    for at in range(times):
        people = generator.beta(2, 2, 20)  # of each person's reconstructions, this share is truly theirs
        truth = 0.5
        rates = people * sensitivity + (1 - people) * false_positives
        hits = [generator.binomial(8, rates) / 8 for _ in range(3)]
        found = bootstrap_mean_interval(hits, seed=at, resamples=200)
        real, control = generator.binomial(80, sensitivity) / 80, generator.binomial(160, false_positives) / 160
        leak = corrected_leak(found.mean, (found.low, found.high), sensitivity=Rate(share=real, trials=80),
                              false_positives=Rate(share=control, trials=160))  # fmt: skip
        inside += leak.low <= truth <= leak.high
    assert inside >= 0.9 * times


@pytest.mark.parametrize(("share", "trials", "variance"), [(0.8, 8, 0.74 * 0.26 / 10), (1.0, 1, 2 / 3 * 1 / 3 / 3)])
def test_a_share_varies_as_with_a_success_and_a_failure_more(share, trials, variance):
    assert Rate(share=share, trials=trials).variance == pytest.approx(variance)


@pytest.mark.parametrize("wrong", [{"share": 1.2, "trials": 3}, {"share": 0.5, "trials": 0}])
def test_impossible_rates_are_refused(wrong):
    with pytest.raises(InputError, match="rate: expected a share"):
        Rate(**wrong)
