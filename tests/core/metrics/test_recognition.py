"""Heads on features, thresholds, accepts and ranks: closed forms, optimality, and what holds of any scores."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.metrics.metric import strangers_needed
from smoothsweep.core.metrics.recognition import (
    accept_threshold,
    accepted,
    all_scores,
    fit_class_means,
    fit_head,
    gallery_ranks,
    head_logits,
    template_scores,
)


def clusters(classes: int, per_class: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [N, 8] around one axis per class, of varying length."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = 0.15 * torch.randn(len(labels), 8, generator=generator)
    length = 1 + 4 * torch.rand(len(labels), 1, generator=generator)
    return (torch.eye(8)[labels] + noise) * length, labels


@pytest.mark.parametrize("classes", [2, 5])
def test_a_fitted_head_recognises_new_images(classes):
    head = fit_head(*clusters(classes, 20, seed=0), seed=0)
    features, labels = clusters(classes, 20, seed=1)
    logits = head_logits(head, features)
    assert logits.shape == (20 * classes, classes)
    assert (logits.argmax(1) == labels).all()
    assert head.weight.dtype == head.bias.dtype == torch.float32


def test_the_fit_satisfies_the_optimality_condition():
    """At the optimum of the penalised likelihood W = C * (onehot - p)^T x, and the biases are balanced."""
    features, labels = clusters(4, 15, seed=2)
    head = fit_head(features, labels, seed=0, inverse_penalty=3.0)
    unit = torch.nn.functional.normalize(features)
    residual = torch.nn.functional.one_hot(labels).float() - head_logits(head, features).softmax(1)
    torch.testing.assert_close(head.weight, 3.0 * residual.T @ unit, rtol=0, atol=1e-3)
    torch.testing.assert_close(residual.sum(0), torch.zeros(4), rtol=0, atol=1e-3)


def test_the_fit_of_two_classes_satisfies_the_optimality_condition_of_the_log_odds():
    """At the optimum w = C * (y - p)^T x, of the row that the two oppose each other by: one minus the other."""
    features, labels = clusters(2, 15, seed=2)
    head = fit_head(features, labels, seed=0, inverse_penalty=3.0)
    unit, logits = torch.nn.functional.normalize(features), head_logits(head, features)
    residual = labels.float() - logits.softmax(1)[:, 1]
    torch.testing.assert_close(head.weight[1] - head.weight[0], 3.0 * residual @ unit, rtol=0, atol=1e-3)
    torch.testing.assert_close(residual.sum(), torch.tensor(0.0), rtol=0, atol=1e-3)
    assert torch.equal(logits.sum(1).abs() < 1e-5, torch.ones(30, dtype=torch.bool))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 99), scale=st.floats(0.01, 100))
def test_the_length_of_features_does_not_matter(seed, scale):
    features, labels = clusters(3, 5, seed)
    means = fit_class_means(features, labels)
    torch.testing.assert_close(fit_class_means(scale * features, labels).weight, means.weight)
    torch.testing.assert_close(head_logits(means, scale * features), head_logits(means, features))


def test_class_means_in_closed_form():
    features = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    head = fit_class_means(features, torch.tensor([0, 0, 1]))
    root = 0.5**0.5
    torch.testing.assert_close(head.weight, torch.tensor([[root, root], [-1.0, 0.0]]))
    assert head.bias.tolist() == [0, 0]
    cosines = head_logits(head, torch.tensor([[5.0, 0.0], [-3.0, 0.0]]))
    torch.testing.assert_close(cosines, torch.tensor([[root, -1.0], [-root, 1.0]]))


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
