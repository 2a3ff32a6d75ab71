"""From trials to means, intervals and differences: several seeds, classes in another order, numbers by a second way."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from smoothsweep.core.judges.columns import BY_KEY, metric_of
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.orchestrator.result.estimates import (
    NOTHING,
    Sample,
    Settings,
    collect,
    compare,
    ends,
    estimate,
    rates,
)

RATE, SPEC = "embedder_acc1", metric_of("embedder_acc1")
SETTINGS = Settings(level=0.9, resamples=300, seed=5)


def hits(**by_class):
    return pd.Series(by_class, dtype=float)


def sample(**by_class):
    return Sample(value=float(np.mean(list(by_class.values()))), by_class=hits(**by_class))


def trials(*rows):
    return pd.DataFrame([{"trial": f"t{at}", "status": "done", **row} for at, row in enumerate(rows)])


def test_only_what_is_done_and_measured_is_collected_under_its_seed():
    rows = trials(
        {"seed": 7, RATE: 0.5, "test_acc": 0.9},
        {"seed": 3, RATE: 0.25, "test_acc": None},
        {"seed": 1, RATE: 1.0, "test_acc": 1.0, "status": "failed"},
        {"seed": 2, RATE: None, "test_acc": 0.8},
    )
    by_class = pd.DataFrame(
        [
            {"trial": trial, "class": name, RATE: rate, "other": 9.0}
            for trial, rates_of in (("t0", {"b": 0.75, "a": 0.25, "c": None}), ("t2", {"a": 1.0}), ("t3", {"a": 0.5}))
            for name, rate in rates_of.items()
        ]
    )
    found = collect(rows, by_class)
    assert set(found) == set(BY_KEY) and not any(found[key] for key in found if key not in (RATE, "test_acc"))
    assert {seed: one.value for seed, one in found["test_acc"].items()} == {7: 0.9, 2: 0.8}
    assert {seed: one.value for seed, one in found[RATE].items()} == {7: 0.5, 3: 0.25}
    assert found[RATE][7].by_class.to_dict() == {"a": 0.25, "b": 0.75} and found[RATE][3].by_class is None
    assert list(found[RATE][7].by_class.index) == ["a", "b"] and found["test_acc"][7].by_class is None
    assert collect(rows, None)[RATE][7].by_class is None
    assert collect(rows, by_class.drop(columns=RATE))[RATE][7].by_class is None


def test_rates_are_of_the_classes_that_all_have_in_one_order():
    three = [sample(a=0.1, b=0.2, c=0.3), sample(c=0.6, a=0.4, d=0.9), sample(d=0.0, c=0.8, b=0.5, a=0.7)]
    found, by_class = rates(three)
    assert by_class and found.tolist() == [[0.1, 0.3], [0.4, 0.6], [0.7, 0.8]]
    for others in ([*three, Sample(value=0.5)], [*three, sample(x=0.5)]):
        found, by_class = rates(others)
        assert not by_class and found.tolist() == [[one.value] for one in others]


def test_a_rate_has_wilsons_interval_with_classes_where_all_seeds_have_them_else_students_t():
    known = {4: sample(a=0.2, b=0.6), 2: sample(a=0.4, b=0.7), 9: sample(a=0.3, b=0.5)}
    matrix = np.array([[0.2, 0.6], [0.4, 0.7], [0.3, 0.5]])
    by_hand = rate_interval(matrix, level=0.9)
    assert estimate(SPEC, known, SETTINGS) == pytest.approx((matrix.mean(), by_hand.low, by_hand.high, 3))
    values = [0.4, 0.55, 0.45]
    bare = {seed: Sample(value=value) for seed, value in zip((4, 2, 9), values, strict=True)}
    without = rate_interval(values, level=0.9)
    assert without.high - without.low != pytest.approx(by_hand.high - by_hand.low)
    for some in (bare, {**bare, 2: sample(a=0.5, b=0.6)}):
        assert estimate(SPEC, some, SETTINGS) == pytest.approx((np.mean(values), without.low, without.high, 3))
    half = stats.t.ppf(0.95, 2) * np.std(values, ddof=1) / np.sqrt(3)
    found = estimate(metric_of("dist_face"), bare, SETTINGS)
    assert found == pytest.approx((np.mean(values), np.mean(values) - half, np.mean(values) + half, 3))
    nothing = estimate(SPEC, {}, SETTINGS)
    assert nothing.n == 0 and np.isnan(nothing[:3]).all()
    (one, low, high, n) = estimate(SPEC, {3: Sample(value=0.25)}, SETTINGS)
    assert (one, n) == (0.25, 1) and np.isnan((low, high)).all()


def paired(mine, reference, among=1):
    return compare(SPEC, mine, reference, SETTINGS, among=among)


def test_a_difference_is_paired_by_seed_and_class_whatever_their_order():
    """Mine minus the reference over seeds 1, 2 and 3, classes a and b; a fourth seed on either side counts for none."""
    reference = {1: sample(a=0.1, b=0.3), 2: sample(a=0.2, b=0.3), 3: sample(a=0.1, b=0.4), 8: sample(a=1.0, b=1.0)}
    mine = {
        3: sample(b=0.65, a=0.42),
        9: sample(a=0.0, b=0.0),
        1: sample(a=0.45, b=0.6, z=1.0),
        2: sample(a=0.5, b=0.61),
    }
    sides = {
        "mine": np.array([[0.42, 0.65], [0.45, 0.6], [0.5, 0.61]]),
        "reference": np.array([[0.1, 0.4], [0.1, 0.3], [0.2, 0.3]]),
    }
    for among in (1, 6):
        (pair,) = compare_recipes(sides, level=0.9, among=among, span=1.0).pairs
        found, back = paired(mine, reference, among), paired(reference, mine, among)
        assert (found.difference, found.low, found.high, found.p, found.n) == pytest.approx(
            ((sides["mine"] - sides["reference"]).mean(), pair.low, pair.high, pair.p_corrected, 3)
        )
        assert (back.difference, back.low, back.high) == pytest.approx((-found.difference, -found.high, -found.low))
        assert found.low < found.difference < found.high
        assert (found.verdict, back.verdict) == (("higher", "lower") if found.low > 0 else ("inconclusive",) * 2)
    wide, narrow = paired(mine, reference, 6), paired(mine, reference, 1)
    assert narrow.verdict == "higher"
    assert wide.low < narrow.low and wide.high > narrow.high and wide.p > narrow.p, "corrected for six"


def test_without_a_seed_in_common_there_is_no_difference():
    one, other = {1: sample(a=0.5)}, {2: sample(a=0.5)}
    assert paired(one, other) is NOTHING and paired({}, other) is NOTHING
    assert NOTHING.n == 0 and NOTHING.verdict == "" and NOTHING.p is None


def test_an_interval_has_two_ends_or_none():
    assert ends(0.25, 0.5) == (0.25, 0.5)
    assert all(np.isnan(ends(*pair)).all() for pair in ((None, 0.5), (0.5, None), (None, None)))
