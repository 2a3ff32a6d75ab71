"""Hits as the low-resolution attacks' own evaluations count them: by hand, and the official numbers."""

import pytest
import torch

from smoothsweep.core.metrics.accuracy import gmi_report, result_slots, spread_over_restarts, std_over_slots, topk_hits
from tests.lowres import golden
from tests.plg import golden as of_plg


def test_gmis_two_numbers_by_hand():
    """Class 0: no positive logit, which counts as class 0. Class 1: the best restart misses, another hits. Class 2: no
    positive logit, seen as 0. Class 3: of two equal logits the first."""
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    logits = torch.tensor([-1.0, -2.0, 3.0, 5.0, -1.0, 0.0, 2.0, 2.0])
    predicted = torch.tensor([4, 4, 1, 0, 2, 2, 3, 0])
    report = gmi_report(logits, predicted, labels)
    assert (report.acc, report.acc_any) == (0.5, 0.75)
    shuffled = torch.tensor([6, 0, 2, 4, 1, 3, 5, 7])  # the order of classes says nothing
    assert gmi_report(logits[shuffled], predicted[shuffled], labels[shuffled]) == report


def test_gmis_scoring_is_the_official_one():
    labels, restarts = golden("gmi_iden").long(), 5
    targets, seen = golden("gmi_final_target_logits"), golden("gmi_final_eval_logits").argmax(2)  # [restarts, classes]
    logits = targets[:, torch.arange(5), labels]
    report = gmi_report(logits.T.flatten(), seen.T.flatten(), labels.repeat_interleave(restarts))
    assert report.acc == pytest.approx(golden("gmi_ret_acc").item())
    assert report.acc_any == pytest.approx(golden("gmi_ret_acc5").item())
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
        assert whole == pytest.approx(std_over_slots(hits, labels))


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
