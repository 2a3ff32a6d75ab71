"""Leaks corrected for a judge's error: by hand, at the edges, and how often the interval holds the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.core.metrics.known_error import Rate, corrected_leak

SURE = 10**9


def test_a_judge_without_error_changes_nothing():
    found = corrected_leak(
        0.4, (0.3, 0.5), sensitivity=Rate(share=1.0, trials=SURE), false_positives=Rate(share=0.0, trials=SURE)
    )
    assert (found.value, found.low, found.high) == pytest.approx((0.4, 0.3, 0.5), abs=1e-4)


def test_by_hand():
    found = corrected_leak(
        0.45, None, sensitivity=Rate(share=0.8, trials=100), false_positives=Rate(share=0.1, trials=100)
    )
    assert found.value == pytest.approx(0.5) and found.low is None


@pytest.mark.parametrize(("observed", "value"), [(0.0, 0.0), (0.05, 0.0), (0.1, 0.0), (0.8, 1.0), (1.0, 1.0)])
def test_what_lies_outside_the_judges_range_is_none_or_all(observed, value):
    found = corrected_leak(
        observed, None, sensitivity=Rate(share=0.8, trials=50), false_positives=Rate(share=0.1, trials=50)
    )
    assert found.value == value


@pytest.mark.parametrize(("wrong", "told"), [(0.69, True), (0.7, True), (0.71, False), (0.9, False)])
def test_a_tenth_between_the_two_rates_is_enough(wrong, told):
    """Of 0.8 to 0.7 the difference rounds to just above a tenth, in binary."""
    found = corrected_leak(
        0.75, (0.7, 0.8), sensitivity=Rate(share=0.8, trials=50), false_positives=Rate(share=wrong, trials=50)
    )
    assert (found is not None) == told


@pytest.mark.parametrize(("observed", "level"), [(-0.01, 0.95), (1.01, 0.95), (0.5, 0.0), (0.5, 1.0)])
def test_what_is_no_share_or_level_is_refused(observed, level):
    rates = {name: Rate(share=share, trials=9) for name, share in (("sensitivity", 1.0), ("false_positives", 0.0))}
    with pytest.raises(InputError, match="leak: expected a share in"):
        corrected_leak(observed, None, **rates, level=level)


def test_a_judge_that_tells_nothing_corrects_nothing():
    assert (
        corrected_leak(0.3, None, sensitivity=Rate(share=0.3, trials=50), false_positives=Rate(share=0.25, trials=50))
        is None
    )


@given(st.floats(0.05, 0.95), st.integers(5, 500), st.integers(5, 500))
def test_fewer_images_of_a_judge_never_narrow_the_interval(observed, few, more):
    few, more = sorted((few, more))
    widths = []
    for trials in (few, more):
        found = corrected_leak(
            observed,
            (observed - 0.05, observed + 0.05),
            sensitivity=Rate(share=1.0, trials=trials),
            false_positives=Rate(share=0.0, trials=trials),
        )
        widths.append(found.high - found.low)
        assert found.low <= found.value <= found.high
    assert widths[0] >= widths[1] - 1e-9


@pytest.mark.parametrize("truth", [0.12, 0.5, 0.88])
@pytest.mark.parametrize(("real_images", "control_images"), [(80, 160), (25, 400), (400, 25)])
def test_the_interval_holds_the_truth(truth, real_images, control_images):
    """Coverage of the whole way, from hits of people under seeds to the corrected leak, at a nominal 95 %.

    Where nearly all or hardly any of it is true, and one of the two rates is known much better than the other, an
    interval that takes one rate's variance for the other's misses.
    """
    generator, inside, wide, times = np.random.default_rng(1), 0, [], 120
    sensitivity, false_positives = 0.85, 0.12
    for _ in range(times):
        people = generator.beta(8 * truth, 8 * (1 - truth), 20)  # of each person's images, this share is truly theirs
        rates = people * sensitivity + (1 - people) * false_positives
        hits = [generator.binomial(8, rates) / 8 for _ in range(3)]
        found = rate_interval(hits, images=3 * 20 * 8)
        real = generator.binomial(real_images, sensitivity) / real_images
        control = generator.binomial(control_images, false_positives) / control_images
        leak = corrected_leak(
            found.mean,
            (found.low, found.high),
            sensitivity=Rate(share=real, trials=real_images),
            false_positives=Rate(share=control, trials=control_images),
        )
        inside += leak.low <= truth <= leak.high
        wide.append(leak.high - leak.low)
    assert inside >= 0.9 * times and max(wide) < 0.75


@given(
    value=st.floats(0.05, 0.95),
    sensitivity=st.floats(0.6, 1.0),
    wrong=st.floats(0.0, 0.4),
    real=st.integers(5, 400),
    control=st.integers(5, 400),
    half=st.floats(0.0, 0.2),
    level=st.sampled_from([0.8, 0.95, 0.99]),
)
def test_the_ends_are_those_of_the_delta_method(value, sensitivity, wrong, real, control, half, level):
    """By its own derivatives, taken numerically: of (observed - wrong) / (sensitivity - wrong) in each of the three."""
    observed = value * sensitivity + (1 - value) * wrong
    ends = (max(0.0, observed - half), min(1.0, observed + half))
    rates = {"sensitivity": Rate(share=sensitivity, trials=real), "false_positives": Rate(share=wrong, trials=control)}
    found = corrected_leak(observed, ends, **rates, level=level)
    assert found.value == pytest.approx(value, abs=1e-9)

    def true(observed, sensitivity, wrong):
        return (observed - wrong) / (sensitivity - wrong)

    step, z = 1e-6, stats.norm.isf((1 - level) / 2)
    slope = [
        (
            true(*(at + step * (i == axis) for i, at in enumerate((observed, sensitivity, wrong))))
            - true(*(at - step * (i == axis) for i, at in enumerate((observed, sensitivity, wrong))))
        )
        / (2 * step)
        for axis in range(3)
    ]
    spread = [
        slope[axis] ** 2 * z**2 * (p := (rate * n + 1) / (n + 2)) * (1 - p) / (n + 2)
        for axis, rate, n in ((1, sensitivity, real), (2, wrong, control))
    ]
    for end, side, got in ((ends[0], -1, found.low), (ends[1], 1, found.high)):
        around = (slope[0] * (observed - end)) ** 2 + sum(spread)
        assert got == pytest.approx(min(1.0, max(0.0, value + side * around**0.5)), abs=1e-4)


@pytest.mark.parametrize(("share", "trials", "variance"), [(0.8, 8, 0.74 * 0.26 / 10), (1.0, 1, 2 / 3 * 1 / 3 / 3)])
def test_a_share_varies_as_with_a_success_and_a_failure_more(share, trials, variance):
    assert Rate(share=share, trials=trials).variance == pytest.approx(variance)


@pytest.mark.parametrize("wrong", [{"share": 1.2, "trials": 3}, {"share": 0.5, "trials": 0}])
def test_impossible_rates_are_refused(wrong):
    with pytest.raises(InputError, match="rate: expected a share"):
        Rate(**wrong)
