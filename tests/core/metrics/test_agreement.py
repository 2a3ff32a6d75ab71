"""Fleiss' kappa and rank agreement: closed forms, the printed example, scipy's coefficient, coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from smoothsweep.core.metrics.agreement import Correlation, fleiss_kappa, rank_agreement, top_overlap

TEXTBOOK = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten things, fourteen raters, five categories: kappa 0.210."""


def test_the_textbooks_example():
    assert fleiss_kappa(TEXTBOOK) == pytest.approx(0.2099, abs=5e-5)


def test_who_agrees_on_everything_has_one_and_chance_has_none():
    assert fleiss_kappa([[3, 0, 0], [0, 3, 0], [0, 0, 3]]) == pytest.approx(1)
    rng = np.random.default_rng(0)
    votes = rng.multinomial(3, [0.2, 0.3, 0.5], size=20_000)
    assert abs(fleiss_kappa(votes)) < 0.02


def test_what_says_nothing_of_agreement_is_left_out():
    assert fleiss_kappa([*TEXTBOOK, [0, 1, 0, 0, 0], [0] * 5]) == fleiss_kappa(TEXTBOOK)
    assert fleiss_kappa([[1, 0], [0, 1]]) is None and fleiss_kappa(np.zeros((0, 3))) is None
    assert fleiss_kappa([[3, 0], [2, 0]]) is None


@given(arrays(np.int64, (6, 3), elements=st.integers(0, 5)))
def test_neither_names_nor_order_matter(votes):
    kappa = fleiss_kappa(votes)
    moved = fleiss_kappa(votes[::-1][:, [2, 0, 1]])
    assert (kappa is None) == (moved is None)
    if kappa is not None:
        assert moved == pytest.approx(kappa) and kappa <= 1 + 1e-12


@pytest.mark.parametrize("votes", [[1, 2], [[-1, 3]], [[0.5, 1.5]]])
def test_what_is_no_table_of_counts_is_refused(votes):
    with pytest.raises(ValueError, match="whole numbers"):
        fleiss_kappa(votes)


# Few different values, so that ties are common.
pairs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 6).map(float), min_size=n, max_size=n)] * 2)
)


@settings(deadline=None, max_examples=100)
@given(sides=pairs)
def test_the_coefficients_are_scipys(sides):
    proxy, full = sides
    found = rank_agreement(proxy, full, k=1, resamples=20, seed=0)
    if len(set(proxy)) == 1 or len(set(full)) == 1:
        assert np.isnan(found.kendall.value)
        assert (found.kendall.low, found.kendall.high, found.verdict) == (None, None, "inconclusive")
        return
    assert found.kendall.value == pytest.approx(stats.kendalltau(proxy, full).statistic)


@settings(deadline=None, max_examples=60)
@given(sides=pairs, data=st.data())
def test_only_ranks_matter_and_the_sides_are_alike(sides, data):
    proxy, full = np.array(sides[0]), np.array(sides[1])
    k = data.draw(st.integers(1, len(proxy)))
    found = rank_agreement(proxy, full, k=k, resamples=50, seed=0)
    scaled = rank_agreement(np.exp(proxy), full, k=k, resamples=50, seed=0)
    order = data.draw(st.permutations(range(len(proxy))))
    one, other = found.kendall, scaled.kendall
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high), nan_ok=True)
    assert one.low is None or -1 <= one.low <= one.value <= one.high <= 1
    assert scaled.top_overlap == found.top_overlap == top_overlap(full, proxy, k=k)
    assert top_overlap(proxy[order], full[order], k=k) == pytest.approx(found.top_overlap)
    assert rank_agreement(full, full, k=k, resamples=50, seed=0).top_overlap == pytest.approx(1)


def test_top_overlap_shares_the_places_that_ties_leave():
    assert top_overlap([1, 2, 3, 4], [4, 3, 2, 1], k=2) == 0
    assert top_overlap([1, 2, 3, 4], [4, 3, 2, 1], k=3) == pytest.approx(2 / 3)
    assert top_overlap([1, 2, 3, 4], [4, 3, 2, 1], k=4) == 1
    # Four recipes tie for two places: each holds half of one, and the two best get half of their places.
    assert top_overlap([0, 0, 0, 0], [1, 2, 3, 4], k=2) == 0.5


def test_perfect_agreement_of_a_few_recipes_is_not_certainty():
    few, more = (rank_agreement(np.arange(n), np.arange(n), seed=0) for n in (5, 20))
    assert few.kendall.value == few.kendall.high == more.kendall.value == 1
    assert 0 < few.kendall.low < 0.5 < more.kendall.low < 1
    assert few.verdict == more.verdict == "agree"
    turned = rank_agreement(np.arange(20), -np.arange(20), seed=0)
    assert turned.kendall.low == -1
    assert turned.kendall.high == pytest.approx(-more.kendall.low)
    assert turned.verdict == "disagree"
    four = rank_agreement(np.arange(4), np.arange(4), seed=0)
    assert four.kendall == Correlation(value=1.0, low=None, high=None)
    assert four.verdict == "inconclusive"


@pytest.mark.parametrize(("n", "correlation"), [(8, 0.0), (15, 0.6), (30, 0.9)])
def test_intervals_cover_the_truth_as_often_as_they_say(n, correlation):
    """Normal pairs, whose true coefficient is known (Greiner)."""
    tau, covered = 2 / np.pi * np.arcsin(correlation), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n)
        y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=n)
        found = rank_agreement(x, y, resamples=200, seed=seed)
        covered += found.kendall.low <= tau <= found.kendall.high
    assert covered >= 90
    assert found.kendall.high - found.kendall.low < 1.7  # and not by covering everything
