"""Hits, confidences, spreads, calibration: official numbers, ties, what a surrogate learns, what attacks report."""

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
    expected_calibration_error,
    gmi_report,
    result_slots,
    score_surrogate,
    spread_over_restarts,
    target_confidence,
    top1_accuracy,
    top5_of_last_slot,
    topk_accuracy,
    topk_hits,
)
from tests.lowres import golden
from tests.plg import golden as of_plg

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "metrics.npz")
LOGITS = torch.from_numpy(GOLDEN["acc_logits"])
LABELS = torch.from_numpy(GOLDEN["acc_targets"])


def test_accuracies_and_confidences_equal_the_official_ones():
    report, hits = accuracy_report(LOGITS, LABELS), topk_hits(LOGITS, LABELS, 1)
    of_hits = target_confidence(LOGITS, LABELS)[hits].double().mean()
    ours = [report.top1, report.top5, of_hits, report.target_confidence]
    np.testing.assert_allclose(ours, GOLDEN["acc_top1_top5_correctconf_totalconf"], rtol=0, atol=1e-7)
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
    reference = GOLDEN["acc_std_candidates_classpop_class_sample_rankpop_ranksample"]
    report = accuracy_report(LOGITS, LABELS)
    assert report.std_over_classes == pytest.approx(reference[1], rel=0, abs=1e-8)  # from float32 class accuracies
    assert report.std_over_slots == pytest.approx(reference[3], rel=0, abs=1e-12)


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


def test_undefined_numbers_are_none_and_the_top_5_of_three_classes_is_1():
    logits, labels = torch.tensor([[0.0, 1.0, 0.0]] * 3), torch.tensor([0, 0, 0])
    alone = accuracy_report(logits, labels)
    assert alone.std_over_classes is None and alone.top5 == topk_accuracy(logits, labels, 5) == 1.0
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
    assert topk_accuracy(logits, labels, 5) == pytest.approx(5 / 6)


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


OF_CALIBRATION = torch.from_numpy(GOLDEN["ece_logits"]), torch.from_numpy(GOLDEN["ece_targets"])


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_calibration_error_equals_torchmetrics(protocol):
    ours = expected_calibration_error(*OF_CALIBRATION, protocol=protocol, bins=10)
    assert ours == pytest.approx(GOLDEN["ece_10bins_l1_l2_max"][1], abs=2e-7)


def test_calibration_error_of_two_bins_in_closed_form():
    """Three rows of confidence 0.6, one of them right, and one right row of confidence 0.9."""
    logits, labels = torch.tensor([[0.6, 0.4]] * 3 + [[0.1, 0.9]]).log(), torch.tensor([0, 1, 1, 1])
    ours = expected_calibration_error(logits, labels, protocol="clean", bins=10)
    assert ours == pytest.approx((0.75 * (0.6 - 1 / 3) ** 2 + 0.25 * 0.1**2) ** 0.5, abs=1e-6)


def test_protocols_differ_for_a_confidence_of_exactly_one():
    """One wrong row at 1.0 and one right row at 0.95: one bin that nearly cancels, or two that do not."""
    logits, labels = torch.tensor([[200.0, 0.0], [0.0, np.log(0.05 / 0.95)]]), torch.tensor([1, 0])
    clean, paper = (expected_calibration_error(logits, labels, protocol=p, bins=10) for p in ("clean", "paper"))
    assert clean == pytest.approx((1 - 0.05) / 2, abs=1e-6)
    assert paper == pytest.approx(((1 + 0.05**2) / 2) ** 0.5, abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), bins=st.integers(1, 20), scale=st.floats(0.1, 30))
def test_a_calibration_error_is_within_0_and_1(seed, bins, scale):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(30, 4, generator=generator)
    labels = torch.randint(4, (30,), generator=generator)
    assert 0 <= expected_calibration_error(logits, labels, protocol="clean", bins=bins) <= 1 + 1e-9


def test_gmis_two_numbers_by_hand():
    """Class 0: no positive logit, which counts as class 0. Class 1: the best restart misses, another hits. Class 2: no
    positive logit, seen as 0. Class 3: of two equal logits the first."""
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    logits = torch.tensor([-1.0, -2.0, 3.0, 5.0, -1.0, 0.0, 2.0, 2.0])
    predicted = torch.tensor([4, 4, 1, 0, 2, 2, 3, 0])
    report = gmi_report(logits, predicted, labels)
    assert report == (0.5, 0.75)
    shuffled = torch.tensor([6, 0, 2, 4, 1, 3, 5, 7])  # the order of classes says nothing
    assert gmi_report(logits[shuffled], predicted[shuffled], labels[shuffled]) == report


def test_gmis_scoring_is_the_official_one():
    labels, restarts = golden("gmi_iden").long(), 5
    targets, seen = golden("gmi_final_target_logits"), golden("gmi_final_eval_logits").argmax(2)  # [restarts, classes]
    logits = targets[:, torch.arange(5), labels]
    report = gmi_report(logits.T.flatten(), seen.T.flatten(), labels.repeat_interleave(restarts))
    assert report == pytest.approx((golden("gmi_ret_acc").item(), golden("gmi_ret_acc5").item()))
    best = logits.argmax(0)
    torch.testing.assert_close(logits.amax(0), golden("gmi_ret_max_score"), atol=2e-4, rtol=0)
    assert torch.equal(seen[best, torch.arange(5)].float(), golden("gmi_ret_max_iden"))
    assert torch.equal((seen == labels).any(0).float(), golden("gmi_ret_flag"))
    torch.testing.assert_close(golden("gmi_z_final")[best, torch.arange(5)], golden("gmi_ret_z_hat"))
    assert int((seen[-1] == labels).sum()) == golden("gmi_ret_cnt_last")


def test_spreads_by_hand():
    """Two classes, then one; of the first batch the slots' shares are 1 and 0.5, of the second 0 and 1."""
    labels, restarts = torch.tensor([7, 7, 2, 2, 5, 5]), torch.tensor([0, 1, 1, 0, 0, 1])
    hits = torch.tensor([True, True, False, True, False, True])
    found = spread_over_restarts(hits, labels, restarts, classes=2, of="deviation")
    assert found == pytest.approx((0.125**0.5 + 0.5**0.5) / 2)
    assert spread_over_restarts(hits, labels, restarts, classes=2, of="variance") == pytest.approx(0.3125**0.5)
    slots = result_slots(labels)
    for of in ("deviation", "variance"):  # in one batch, rows in order, both are the spread over slots
        whole = spread_over_restarts(hits, labels, slots, classes=60, of=of)
        assert whole == pytest.approx(class_means(hits, slots)[1].std().item())


@pytest.mark.parametrize(("k", "at"), [(1, 2), (5, 3)])
def test_lommas_spread_is_the_official_one(k, at):
    logits, labels = golden("evalp_eval_logits"), golden("evalp_labels").long()  # [batches, draws, labels, classes]
    hits = topk_hits(logits.transpose(1, 2).flatten(0, 2), labels.flatten().repeat_interleave(5), k)
    places = torch.arange(20).repeat_interleave(5)  # labels come back, in a batch even: each counts by itself
    found = spread_over_restarts(hits, places, result_slots(places), classes=4, of="deviation")
    assert found * 100 == pytest.approx(golden("evalp_official_acc_acc5_std_std5")[at].item())
    if k == 1:
        assert (int(hits.sum()), len(hits)) == (golden("evalp_successful").item(), golden("evalp_total").item())
        assert hits.double().mean().item() * 100 == pytest.approx(golden("evalp_official_acc_acc5_std_std5")[0].item())


@pytest.mark.parametrize(("k", "at"), [(1, 2), (5, 3)])
def test_plgs_spread_is_the_root_of_the_official_one(k, at):
    logits, labels = of_plg("plg_attack_eval_logits"), of_plg("plg_iden")  # [restarts, labels, classes]
    rows, of_rows = logits.transpose(0, 1).flatten(0, 1), labels.repeat_interleave(len(logits)).long()
    hits = topk_hits(torch.as_tensor(rows), of_rows, k)
    official = golden("plg_attack_acc_acc5_var_var5")
    assert hits.double().mean().item() == pytest.approx(official[at - 2].item())
    found = spread_over_restarts(hits, of_rows, result_slots(of_rows), classes=60, of="variance")
    assert found**2 == pytest.approx(official[at].item(), abs=1e-6)


def test_keds_spread_is_the_root_of_the_official_one():
    """Of its own code, whose rows in tables LOMMA's evaluation made."""
    logits, labels = golden("ked_dist_eval_logits"), golden("ked_iden").long()  # [draws, labels, classes]
    rows, of_rows = logits.transpose(0, 1).flatten(0, 1), labels.repeat_interleave(len(logits))
    for k, at in ((1, 0), (5, 1)):
        hits, official = topk_hits(rows, of_rows, k), golden("ked_dist_acc_acc5_var_var5")
        assert hits.double().mean().item() == pytest.approx(official[at].item())
        found = spread_over_restarts(hits, of_rows, result_slots(of_rows), classes=60, of="variance")
        assert found**2 == pytest.approx(official[at + 2].item(), abs=1e-6)
