"""Thresholds, accepts and ranks of verification: closed forms, and what holds of any scores."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.metric import strangers_needed
from smoothsweep.core.metrics.recognition import (
    accept_threshold,
    accepted,
    all_scores,
    gallery_ranks,
    template_scores,
)

few_values = st.lists(st.integers(-3, 3), min_size=1, max_size=80)  # many ties
rates = st.floats(0.001, 0.6)


def scores_of(values):
    return torch.tensor(values, dtype=torch.float64) / 10


@pytest.mark.parametrize(
    ("count", "rate", "let_in"), [(100, 0.01, 1), (1000, 0.001, 1), (99, 0.01, 0), (300, 0.01, 3), (50, 0.1, 5)]
)
def test_of_distinct_scores_as_many_pass_as_the_rate_allows(count, rate, let_in):
    scores = torch.randperm(count, generator=torch.Generator().manual_seed(0)).double() / count
    threshold = accept_threshold(scores, rate)
    assert int(accepted(scores, threshold).sum()) == let_in
    assert threshold == (count - 1 - let_in) / count  # the largest score that is not let in


def test_equal_scores_are_accepted_together_or_not_at_all():
    scores = scores_of([5] * 3 + [1] * 97)
    assert not accepted(scores, accept_threshold(scores, 0.02)).any()  # two would be allowed, three are equal
    assert int(accepted(scores, accept_threshold(scores, 0.03)).sum()) == 3


@given(few_values, rates)
def test_the_rate_on_the_calibration_scores_is_never_above_the_nominal_one(values, rate):
    scores = scores_of(values)
    threshold = accept_threshold(scores, rate)
    assert accepted(scores, threshold).double().mean() <= rate + 1e-9
    lower = scores[scores < threshold]
    if len(lower):  # and it is the smallest score that keeps it
        assert accepted(scores, float(lower.max())).double().mean() > rate - 1e-9


@pytest.mark.parametrize("scores", [torch.empty(0), torch.tensor([0.1, float("nan")]), torch.zeros(2, 2)])
def test_impossible_scores_are_refused(scores):
    with pytest.raises(InputError, match="impostor scores"):
        accept_threshold(scores, 0.01)


def test_fifty_strangers_make_a_threshold_of_one_percent_and_five_hundred_one_of_a_tenth():
    assert (strangers_needed(0.01), strangers_needed(0.001)) == (50, 500)


def test_scores_are_cosines_with_the_own_template_and_with_all():
    templates = torch.eye(2)
    features = torch.tensor([[3.0, 4.0], [0.0, -2.0]])
    labels = torch.tensor([1, 0])
    assert torch.allclose(all_scores(features, templates), torch.tensor([[0.6, 0.8], [0.0, -1.0]]).double())
    assert torch.allclose(template_scores(features, templates, labels), torch.tensor([0.8, 0.0]).double())


def angles(*degrees):
    turned = np.deg2rad(np.array(degrees, dtype=float))
    return torch.tensor(np.stack([np.cos(turned), np.sin(turned)], axis=1))


def test_the_rank_is_the_median_over_the_photographs_and_a_tie_counts_half():
    strangers = angles(10, 20, 30, 40)
    own, labels = angles(5, 25, 60), torch.zeros(3, dtype=torch.int64)
    assert gallery_ranks(angles(0), torch.tensor([0]), own, labels, strangers).tolist() == [251]
    tied = gallery_ranks(angles(0), torch.tensor([0]), angles(10), torch.zeros(1, dtype=torch.int64), strangers)
    assert tied.tolist() == [1 + 500 * 0.5 / 4]


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_ranks_agree_with_a_count_one_by_one(seed, people):
    random = torch.Generator().manual_seed(seed)
    draw = lambda count: torch.randn(count, 3, generator=random)  # noqa: E731
    features, own, strangers = draw(4), draw(people), draw(7)
    labels, own_labels = torch.tensor([2, 0, 2, 0]), torch.arange(people) % 2 * 2  # photographs of two, in turn
    if people == 1:
        labels = torch.zeros(4, dtype=torch.int64)
    found = gallery_ranks(features, labels, own, own_labels, strangers)
    cosine = torch.nn.functional.cosine_similarity
    for row, feature in enumerate(features.double()):
        nearer = [
            float((cosine(feature[None], strangers.double()) > cosine(feature, photo, dim=0)).sum())
            for photo in own.double()[own_labels == labels[row]]
        ]
        assert found[row] == 1 + 500 * sorted(nearer)[(len(nearer) - 1) // 2] / 7
