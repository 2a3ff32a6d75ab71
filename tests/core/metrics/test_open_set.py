import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.recognition import fit_class_means, fit_head, head_logits


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


def test_bad_data_are_refused():
    features, labels = clusters(3, 4, seed=0)
    for fit in (lambda *data: fit_head(*data, seed=0), fit_class_means):
        with pytest.raises(InputError, match="no real image of class 1"):
            fit(features[labels != 1], labels[labels != 1])
        with pytest.raises(ValueError, match="length above 0"):
            fit(features * 0, labels)
    with pytest.raises(InputError, match="at least 2 classes, got 1"):
        fit_head(features[:4], labels[:4], seed=0)
