"""Hits, confidences, calibration, agreement of raters and ranks, frontiers: official numbers, closed forms."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import CLASS_METRICS, CLOSED_SET, metric_of
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
from smoothsweep.core.metrics.agreement import fleiss_kappa, rank_agreement, top_overlap
from smoothsweep.core.metrics.frontier import accuracy_leak_frontier, hypervolume, pareto_mask
from smoothsweep.sweeps.search import OBJECTIVES, Search
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


def test_the_last_slot_is_the_last_row_of_every_class():
    labels = torch.tensor([1, 0, 1, 0, 1, 2])
    logits = torch.zeros(6, 8)
    logits[torch.arange(6), labels] = torch.tensor([9.0, 9.0, 9.0, -9.0, 9.0, 9.0])
    assert top5_of_last_slot(logits, labels) == pytest.approx(2 / 3)
    assert topk_accuracy(logits, labels, 5) == pytest.approx(5 / 6)


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


def test_protocols_differ_for_a_confidence_of_exactly_one():
    """One wrong row at 1.0 and one right row at 0.95: one bin that nearly cancels, or two that do not."""
    logits, labels = torch.tensor([[200.0, 0.0], [0.0, np.log(0.05 / 0.95)]]), torch.tensor([1, 0])
    clean, paper = (expected_calibration_error(logits, labels, protocol=p, bins=10) for p in ("clean", "paper"))
    assert clean == pytest.approx((1 - 0.05) / 2, abs=1e-6)
    assert paper == pytest.approx(((1 + 0.05**2) / 2) ** 0.5, abs=1e-6)


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


# Few different values, so that ties are common.
pairs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 6).map(float), min_size=n, max_size=n)] * 2)
)


@given(sides=pairs)
def test_the_coefficients_are_scipys(sides):
    proxy, full = sides
    found = rank_agreement(proxy, full, k=1, resamples=20, seed=0)
    if len(set(proxy)) == 1 or len(set(full)) == 1:
        assert np.isnan(found.kendall)
        assert (found.low, found.high, found.verdict) == (None, None, "inconclusive")
        return
    assert found.kendall == pytest.approx(stats.kendalltau(proxy, full).statistic)


@given(sides=pairs, data=st.data())
def test_only_ranks_matter_and_the_sides_are_alike(sides, data):
    proxy, full = np.array(sides[0]), np.array(sides[1])
    k = data.draw(st.integers(1, len(proxy)))
    found = rank_agreement(proxy, full, k=k, resamples=50, seed=0)
    scaled = rank_agreement(np.exp(proxy), full, k=k, resamples=50, seed=0)
    order = data.draw(st.permutations(range(len(proxy))))
    ends = pytest.approx((found.kendall, found.low, found.high), nan_ok=True)
    assert (scaled.kendall, scaled.low, scaled.high) == ends
    assert found.low is None or -1 <= found.low <= found.kendall <= found.high <= 1
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
    assert few.kendall == few.high == more.kendall == 1
    assert 0 < few.low < 0.5 < more.low < 1
    assert few.verdict == more.verdict == "agree"
    turned = rank_agreement(np.arange(20), -np.arange(20), seed=0)
    assert turned.low == -1
    assert turned.high == pytest.approx(-more.low)
    assert turned.verdict == "disagree"
    four = rank_agreement(np.arange(4), np.arange(4), seed=0)
    assert (four.kendall, four.low, four.high, four.verdict) == (1.0, None, None, "inconclusive")


@pytest.mark.parametrize(("n", "correlation"), [(8, 0.0), (15, 0.6), (30, 0.9)])
def test_intervals_cover_the_truth_as_often_as_they_say(n, correlation):
    """Normal pairs, whose true coefficient is known (Greiner)."""
    tau, covered = 2 / np.pi * np.arcsin(correlation), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n)
        y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=n)
        found = rank_agreement(x, y, resamples=200, seed=seed)
        covered += found.low <= tau <= found.high
    assert covered >= 90
    assert found.high - found.low < 1.7  # and not by covering everything


MINIMISE = {2: ("min", "min"), 3: ("min", "min", "min")}


def clouds(dimensions=(2, 3)):
    """Points on a coarse grid, so that ties and duplicates are common."""
    return st.sampled_from(dimensions).flatmap(
        lambda d: arrays(np.float64, st.tuples(st.integers(1, 12), st.just(d)), elements=st.integers(0, 8))
    )


def dominates(a, b):
    return bool((a <= b).all() and (a < b).any())


def counted_cells(points, reference):
    """Hypervolume of points with whole coordinates: the unit cells below the reference that a point dominates."""
    cells = np.stack(np.meshgrid(*[np.arange(end) for end in reference], indexing="ij"), -1)
    return int((cells[..., None, :] >= points).all(-1).any(-1).sum())


def test_a_frontier_by_hand():
    accuracy = [0.95, 0.94, 0.90, 0.90, 0.80, 0.95]
    leak = [0.50, 0.30, 0.30, 0.10, 0.10, 0.50]
    # 2 is beaten by 1 and 3, 4 by 3; 0 and 5 are one point twice and both stay.
    assert accuracy_leak_frontier(accuracy, leak) == (0, 5, 1, 3)


def test_the_constraint_admits_its_own_value_and_can_leave_nothing():
    accuracy, leak = [0.95, 0.90, 0.80], [0.5, 0.4, 0.1]
    assert accuracy_leak_frontier(accuracy, leak, min_accuracy=0.9) == (0, 1)
    assert accuracy_leak_frontier(accuracy, leak, min_accuracy=0.96) == ()
    assert accuracy_leak_frontier([], [], min_accuracy=0.9) == ()


@given(points=clouds())
def test_the_mask_is_what_the_definition_says(points):
    expected = [not any(dominates(other, point) for other in points) for point in points]
    mask = pareto_mask(points, MINIMISE[points.shape[1]])
    assert mask.tolist() == expected
    assert mask.any()
    # A strictly increasing change of scale leaves dominance alone; turning an objective needs the other direction.
    assert pareto_mask(np.exp(points), MINIMISE[points.shape[1]]).tolist() == expected
    assert pareto_mask(-points, ("max",) * points.shape[1]).tolist() == expected


@given(points=clouds(), reference=st.tuples(*[st.integers(0, 8)] * 3))
def test_hypervolume_counts_the_dominated_cells(points, reference):
    reference = reference[: points.shape[1]]
    assert hypervolume(points, reference, MINIMISE[points.shape[1]]) == counted_cells(points, reference)


def test_a_ceiling_is_measured_by_the_same_judge():
    verified = [f"{judge}verified_{rate}" for judge in ("", "general_") for rate in ("far1", "far01")]
    first = ("embedder_acc1", "general_acc1", *verified, "attack_acc1")
    assert tuple(key for key in CLASS_METRICS if key in first) == first
    assert (
        set(CLASS_METRICS) - set(CLOSED_SET)
        == {key for key in CLASS_METRICS if metric_of(key).verifies}
        >= set(verified)
    )
    for key in CLASS_METRICS:
        assert metric_of(metric_of(key).ceiling).judge == metric_of(key).judge
        assert metric_of(metric_of(key).ceiling).stage == metric_of(key).stage
    with pytest.raises(KeyError, match="the metrics are test_acc"):
        metric_of("no_such")


def test_a_search_aims_at_no_metric_that_nothing_measures():
    assert all(metric_of(column).measured_by for column in OBJECTIVES)
    assert {metric_of(column).group for column, judge in OBJECTIVES.items() if judge} == {"leak"}
    aims = {"test_acc": "max", "gradient_cosine": "max", "fid": "max"}
    search = Search(strategy="random", recipes=1, space={"recipe.lr": {"low": 0.1, "high": 0.2}}, objectives=aims)
    assert search.leaks == {"fid": "max"}
