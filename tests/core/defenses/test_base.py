"""Smoothed cross-entropy and the loss of a step."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.defenses.base import (
    Defense,
    MixedLabels,
    SmoothedLoss,
    hard_labels,
    over_outputs,
    smoothed_cross_entropy,
    smoothed_targets,
)
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import LogitsWithAuxiliary, build_classifier

LOGITS = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 4, 0])


@pytest.mark.parametrize("alpha", [0.1, 0.0, -0.05])
def test_plain_training_is_smoothed_cross_entropy_to_the_bit(alpha, tools):
    model = build_classifier("resnet_small", 4, seed=0, protocol="clean").train()
    images, labels = tools.colours(per_class=2)
    result = tools.take_step(Defense(), model, images, labels, alpha=alpha)
    assert torch.equal(result.loss, smoothed_cross_entropy(result.logits, labels, alpha))
    assert result.facts == {}


@pytest.mark.parametrize("alpha", [0.1, -0.05])
def test_mixed_labels_cost_what_their_soft_target_costs(alpha):
    share = torch.linspace(0, 1, 6)
    mixed = MixedLabels(first=LABELS, second=LABELS.flip(0), share=share)
    criterion = SmoothedLoss(alpha=alpha)
    one, other = criterion.targets(LABELS, 5), criterion.targets(LABELS.flip(0), 5)
    target = share[:, None] * one + (1 - share[:, None]) * other
    expected = -(target * LOGITS.log_softmax(1)).sum(1)
    torch.testing.assert_close(criterion(LOGITS, mixed), expected)
    assert mixed.dominant.tolist() == [0, 4, 3, 3, 4, 0]
    with pytest.raises(ValueError, match="one class per image"):
        hard_labels(mixed)


def test_an_auxiliary_head_is_added_in_full():
    losses, logits = over_outputs(LogitsWithAuxiliary(LOGITS, 2 * LOGITS), lambda z: z.sum(1))
    torch.testing.assert_close(losses, 3 * LOGITS.sum(1))
    assert logits is LOGITS


GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "label_smoothing.npz")
LOGITS_LABEL_SMOOTHING = torch.from_numpy(GOLDEN["ls_logits"])
LABELS_LABEL_SMOOTHING = torch.from_numpy(GOLDEN["ls_targets"])


@pytest.mark.parametrize("row", range(6))
def test_value_and_gradient_equal_the_official_loss(row):
    logits = LOGITS_LABEL_SMOOTHING.clone().requires_grad_()
    loss = smoothed_cross_entropy(logits, LABELS_LABEL_SMOOTHING, float(GOLDEN["ls_alphas"][row]))
    loss.backward()
    assert abs(loss.item() - GOLDEN["ls_loss"][row]) < 2e-6
    assert abs(loss.item() - GOLDEN["ls_soft_target_ce_loss"][row]) < 2e-6
    torch.testing.assert_close(logits.grad, torch.from_numpy(GOLDEN["ls_grad"][row]), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("alpha", "expected"), [(0.3, [0.8, 0.1, 0.1]), (-0.3, [1.2, -0.1, -0.1])])
def test_targets_of_the_papers_example(alpha, expected):
    assert smoothed_targets(torch.tensor([0]), 3, alpha)[0].tolist() == pytest.approx(expected)


@given(alpha=st.floats(-50, 1), seed=st.integers(0, 1000), classes=st.integers(2, 12))
def test_gradient_is_softmax_minus_target(alpha, seed, classes):
    """Eqs. 12 and 13, for any factor."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, classes, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(classes, (5,), generator=generator)
    smoothed_cross_entropy(logits, labels, alpha, reduction="sum").backward()
    expected = logits.detach().softmax(1) - smoothed_targets(labels, classes, alpha).double()
    torch.testing.assert_close(logits.grad, expected, rtol=1e-5, atol=1e-5)


def test_reductions_and_half_precision():
    rows = smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1, reduction="none")
    assert rows.shape == (32,)
    torch.testing.assert_close(
        rows.sum(), smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1, reduction="sum")
    )
    torch.testing.assert_close(
        rows.mean(), smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, -0.1)
    )
    half = smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING.bfloat16(), LABELS_LABEL_SMOOTHING, -0.1)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(rows.mean().item(), abs=0.02)


def test_without_smoothing_an_excluded_class_stays_harmless():
    logits = torch.tensor([[0.0, -torch.inf, 0.0]])
    assert smoothed_cross_entropy(logits, torch.tensor([0]), 0.0).item() == pytest.approx(np.log(2))


@pytest.mark.parametrize("alpha", [1.0001, float("nan"), float("inf"), float("-inf"), True, "0.1"])
def test_impossible_factors_are_refused(alpha):
    with pytest.raises(InputError, match="alpha: expected a finite number of at most 1"):
        smoothed_cross_entropy(LOGITS_LABEL_SMOOTHING, LABELS_LABEL_SMOOTHING, alpha)
