"""AUC, true positives at few false ones, per person, and how far a stated rate can be trusted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.membership.measuring import (
    auc_by_person,
    held_out_rate,
    is_chance,
    over_persons,
    person_auc,
    roc_auc,
    tpr_at,
)

SCORES = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(SCORES, SCORES)
def test_auc_counts_pairs_and_half_of_the_ties(members, others):
    pairs = [(a > b) + (a == b) / 2 for a in members for b in others]
    assert roc_auc(members, others) == pytest.approx(np.mean(pairs))


@given(SCORES, st.lists(st.integers(0, 6), min_size=10, max_size=30), st.sampled_from([0.1, 0.25, 0.5]))
def test_the_rate_is_the_best_of_all_thresholds_that_keep_the_false_one(members, others, rate):
    inner, outer = np.array(members), np.array(others)
    allowed = [t for t in range(-1, 7) if (outer > t).mean() <= rate + 1e-9]
    assert tpr_at(members, others, rate) == pytest.approx(max((inner > t).mean() for t in allowed))


def test_a_rate_that_so_few_images_cannot_show_is_null():
    draw = np.random.default_rng(0)
    assert tpr_at(draw.random(50), draw.random(99), 0.01) is None
    assert tpr_at(draw.random(50), draw.random(100), 0.01) is not None


def test_numbers_that_are_none_or_infinite_are_refused():
    for wrong in ([], [np.nan], [np.inf]):
        with pytest.raises(ValueError, match="scores: expected"):
            roc_auc(wrong, [0.0])


def test_the_spread_of_chance_is_that_of_a_simulation():
    draw = np.random.default_rng(2)
    seen = [is_chance(roc_auc(draw.random(30), draw.random(20)), 30, 20, level=0.9) for _ in range(2000)]
    assert np.mean(seen) == pytest.approx(0.9, abs=0.03)


def test_persons_pool_what_images_show_weakly():
    draw, labels = np.random.default_rng(3), np.repeat(np.arange(40), 20)
    member = np.tile(np.arange(20) < 12, 40)
    scores = draw.normal(size=800) + 0.5 * member
    found, size = person_auc(scores, member, labels)
    assert size == 8 and roc_auc(scores[member], scores[~member]) < 0.7 < found
    assert set(auc_by_person(scores, member, labels)) == set(range(40))
    assert person_auc(scores, labels < 5, labels) is None


def test_stated_rates_hold_on_held_back_images_of_one_distribution():
    draw, labels = np.random.default_rng(4), np.repeat(np.arange(40), 25)
    assert held_out_rate(draw.normal(size=1000), labels, 0.05) == pytest.approx(0.05, abs=0.03)
    assert held_out_rate(draw.normal(size=30), labels[:30], 0.05) is None


def test_intervals_over_persons_know_that_images_of_a_person_are_alike():
    draw, labels = np.random.default_rng(5), np.repeat(np.arange(20), 30)
    member = np.tile(np.arange(30) < 15, 20)
    person = np.repeat(draw.normal(size=(20, 2)), 15, axis=1).ravel()  # each person's two kinds lie apart by chance
    alike = over_persons(roc_auc, person + 0.01 * draw.normal(size=600), member, labels)
    apart = over_persons(roc_auc, draw.normal(size=600), member, labels)
    (_, low, high), (_, least, most) = alike, apart
    assert low < 0.5 < high and high - low > 2 * (most - least)
