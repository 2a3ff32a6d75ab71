"""Hits, confidences and spreads: official numbers, ties, and what a surrogate learns."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import (
    accuracy_report,
    class_means,
    mean_target_confidence,
    score_surrogate,
    std_over_classes,
    std_over_slots,
    target_confidence,
    top1_accuracy,
    top5_accuracy,
    top5_of_last_slot,
    topk_accuracy,
    topk_hits,
)
from tests.lowres import golden

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "metrics.npz")
LOGITS = torch.from_numpy(GOLDEN["acc_logits"])
LABELS = torch.from_numpy(GOLDEN["acc_targets"])


def test_accuracies_and_confidences_equal_the_official_ones():
    report = accuracy_report(LOGITS, LABELS)
    ours = [report.top1, report.top5, report.target_confidence_of_hits, report.target_confidence]
    np.testing.assert_allclose(ours, GOLDEN["acc_top1_top5_correctconf_totalconf"], rtol=0, atol=1e-7)
    assert (report.n, report.k5) == (60, 5)
    assert report.top1 == top1_accuracy(LOGITS, LABELS)


def test_per_sample_and_per_class_values_equal_the_official_ones():
    hits = topk_hits(LOGITS, LABELS, 1)
    assert torch.equal(hits, torch.from_numpy(GOLDEN["acc_predictions"]) == LABELS)
    confidence = target_confidence(LOGITS, LABELS)
    np.testing.assert_allclose(confidence.numpy(), GOLDEN["acc_target_conf"], rtol=0, atol=1e-7)
    classes, precision = class_means(hits, LABELS)
    ours = np.stack([classes.numpy(), class_means(confidence, LABELS)[1].numpy(), precision.numpy()], axis=1)
    np.testing.assert_allclose(ours, GOLDEN["acc_per_class_target_meanconf_precision"], rtol=0, atol=1e-7)


def test_spreads_equal_the_reference():
    hits = topk_hits(LOGITS, LABELS, 1)
    ours = [std(hits, LABELS, ddof=ddof) for std in (std_over_classes, std_over_slots) for ddof in (0, 1)]
    reference = GOLDEN["acc_std_candidates_classpop_class_sample_rankpop_ranksample"]
    np.testing.assert_allclose(ours[:2], reference[:2], rtol=0, atol=1e-8)  # from float32 class accuracies
    np.testing.assert_allclose(ours[2:], reference[2:], rtol=0, atol=1e-12)
    report = accuracy_report(LOGITS, LABELS)
    assert [report.std_over_classes, report.std_over_slots] == [ours[1], ours[3]]


def test_ties_go_to_the_lower_class():
    logits = torch.zeros(3, 3)
    assert topk_hits(logits, torch.arange(3), 1).tolist() == [True, False, False]
    assert topk_hits(logits, torch.arange(3), 2).tolist() == [True, True, False]
    assert torch.equal(logits.argmax(1) == torch.arange(3), topk_hits(logits, torch.arange(3), 1))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), classes=st.integers(1, 9), data=st.data())
def test_hits_are_those_of_topk_and_grow_with_k(seed, classes, data):
    k = data.draw(st.integers(1, classes))
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(20, classes, generator=generator)
    labels = torch.randint(classes, (20,), generator=generator)
    hits = topk_hits(logits, labels, k)
    assert torch.equal(hits, (logits.topk(k, dim=1).indices == labels.unsqueeze(1)).any(1))
    assert (hits <= topk_hits(logits, labels, classes)).all()
    assert topk_hits(logits, labels, classes).all()


def test_top5_of_three_classes_says_that_it_is_top3():
    top5 = top5_accuracy(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(4).long())
    assert (top5.value, top5.k, top5.n) == (1.0, 3, 4)
    assert topk_accuracy(LOGITS, LABELS, 5).k == 5


def test_undefined_numbers_are_none():
    logits, labels = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0, 0])
    assert mean_target_confidence(logits, labels, hits_only=True) is None
    assert std_over_classes(topk_hits(logits, labels, 1), labels) is None
    assert std_over_classes(topk_hits(logits, labels, 1), labels, ddof=0) == 0
    uneven = accuracy_report(logits, torch.tensor([0, 0, 1]))
    assert uneven.std_over_slots is None
    assert uneven.std_over_classes == pytest.approx(0.5**0.5)


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match="1 <= k <= 12"):
        topk_hits(LOGITS, LABELS, 13)
    with pytest.raises(ValueError, match="got NaN"):
        topk_hits(torch.full((1, 2), torch.nan), torch.tensor([0]), 1)
    with pytest.raises(ValueError, match="labels: expected 0 to 11, got 0 to 12"):
        target_confidence(LOGITS, LABELS.clamp(max=0).index_fill(0, torch.tensor([3]), 12))


def test_the_last_slot_is_the_last_row_of_every_class():
    labels = torch.tensor([1, 0, 1, 0, 1, 2])
    logits = torch.zeros(6, 8)
    logits[torch.arange(6), labels] = torch.tensor([9.0, 9.0, 9.0, -9.0, 9.0, 9.0])
    assert top5_of_last_slot(logits, labels) == pytest.approx(2 / 3)
    assert top5_accuracy(logits, labels).value == pytest.approx(5 / 6)


def test_lommas_report_is_that_of_the_last_draw():
    logits, labels = golden("evalp_eval_logits"), golden("evalp_labels").long()  # [batches, draws, labels, classes]
    hits = torch.stack([topk_hits(logits[:, draw].flatten(0, 1), labels.flatten(), 5) for draw in range(5)])
    assert hits[-1].double().mean().item() * 100 == pytest.approx(golden("evalp_official_acc_acc5_std_std5")[1].item())
    assert hits.double().mean().item() * 100 == pytest.approx(golden("evalp_clean_acc5_mean_over_seeds").item())


def test_scores_are_the_top1_accuracies_of_the_splits():
    train, test = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 1])
    logits_train = torch.eye(3)[torch.tensor([0, 1, 1, 2])]
    logits = {"train": logits_train, "test": torch.eye(3)[test]}
    scores = score_surrogate(logits, {"train": train, "test": test})
    assert scores == {"xi_train": 0.5, "xi_test": 1.0}


def test_classes_that_were_not_attacked_are_left_out():
    labels = torch.tensor([0, 1, 2, 2])
    logits = torch.eye(3)[torch.tensor([0, 0, 2, 2])]
    splits = {"train": logits, "test": logits}, {"train": labels, "test": labels}
    assert score_surrogate(*splits) == {"xi_train": 0.75, "xi_test": 0.75}
    assert score_surrogate(*splits, attacked=torch.tensor([0, 2])) == {"xi_train": 1.0, "xi_test": 1.0}


def test_a_split_without_an_attacked_class_is_refused():
    labels = torch.tensor([0, 1])
    with pytest.raises(InputError, match="no image of an attacked class in the test split"):
        splits = {"train": torch.eye(2), "test": torch.eye(2)}, {"train": labels, "test": labels - labels}
        score_surrogate(*splits, attacked=torch.tensor([1]))
