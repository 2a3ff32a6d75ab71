"""Cells: what is counted, what is paired, what the intervals are."""

import numpy as np
import pandas as pd
import pytest
from compared_cells import with_gaps
from scipy import stats

from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.summary import summarise

ALPHA, LOSS = Axis(key="alpha"), Axis(key="loss", role="attack")


def cells(results, per_class, axes, baseline=None):
    data = ReportData(title="t", results=results, per_class=per_class, axes=axes, baseline=baseline or {})
    return with_gaps(summarise(data))


def frame(*rows):
    return pd.DataFrame([{"trial": f"{i:012x}", "status": "done", "failure": None} | row for i, row in enumerate(rows)])


def test_one_row_per_combination_attacks_outermost_numbers_ascending():
    rows = [
        {"alpha": a, "loss": loss, "seed": s} for s in (0, 1) for a in (0.1, -0.2, 0.0) for loss in ("ce", "poincare")
    ]
    table = cells(frame(*rows), None, (ALPHA, LOSS))
    assert list(zip(table["attack"], table["alpha"], strict=True)) == [
        (f"loss\u00a0{loss}", a) for loss in ("ce", "poincare") for a in (-0.2, 0.0, 0.1)
    ]
    assert set(table["n"]) == {2}
    assert table["recipe"].tolist()[:3] == ["alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1"]


def test_scalar_metrics_use_student_t_over_seeds():
    values = [80.0, 86.0, 83.0]
    table = cells(frame(*({"alpha": 0, "seed": s, "fid": v} for s, v in enumerate(values))), None, (ALPHA,))
    half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    row = table.iloc[0]
    assert row["fid"] == pytest.approx(np.mean(values))
    assert row["fid_low"] == pytest.approx(np.mean(values) - half)
    assert row["fid_high"] == pytest.approx(np.mean(values) + half)
    assert row["fid_n"] == 3


def test_rates_over_seeds_know_of_how_many_images_they_are():
    """Always right, on 50 test images and on 200 reconstructions of 5 people under each seed."""
    values = {"test_acc": 1.0, "attack_acc5": 1.0, "attack_acc1_std": 0.1, "backdoor_collapsed": 0}
    table = frame(*({"alpha": 0, "seed": seed, **values} for seed in range(3)))
    classes = pd.DataFrame(
        [
            {"trial": trial, "class": c, "attack_acc1": 1.0, "attack_acc1_images": 40}
            for trial in table["trial"]
            for c in range(5)
        ]
    )
    data = ReportData(title="t", results=table, per_class=classes, axes=(ALPHA,), real_images=50)
    row = summarise(data).frame.iloc[0]
    z = stats.norm.ppf(0.975) ** 2
    assert row["test_acc_low"] == pytest.approx(1 / (1 + z / 50)) and row["test_acc_high"] == 1
    worth = 600 / (1 + (600 / 5 - 1) / 4)
    assert row["attack_acc5_low"] == pytest.approx(1 / (1 + z / worth))
    assert row["backdoor_collapsed_high"] == pytest.approx(1 - 1 / (1 + z / 3)), "three trainings"
    assert (row["attack_acc1_std_low"], row["attack_acc1_std_high"]) == pytest.approx((0.1, 0.1)), "no rate"


def test_intervals_stay_within_what_the_metric_can_be():
    rows = [{"alpha": 0, "seed": s, "test_acc": v, "ece": v / 10, "fid": 50 * v} for s, v in enumerate((0.4, 0.95))]
    row = cells(frame(*rows), None, (ALPHA,)).iloc[0]
    assert 0 < row["test_acc_low"] < 0.4 and 0.95 < row["test_acc_high"] < 1
    assert row["ece_low"] == 0.0
    assert row["fid_low"] == 0.0 and row["fid_high"] > 100


def per_class(values):
    """values: trial -> hit rates."""
    return pd.concat(
        pd.DataFrame({"trial": trial, "class": [f"c{i}" for i in range(len(hits))], "embedder_acc1": hits})
        for trial, hits in values.items()
    )


def hit_rates():
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.6, 12)
    return {
        ("a", 0): base + 0.02,
        ("a", 1): base - 0.02,
        ("b", 0): base - 0.08,
        ("b", 1): base - 0.12,
    }


def test_hit_rates_are_over_seeds_and_classes_and_pair_by_both():
    hits = hit_rates()
    rows = [
        {"trial": f"{recipe}{seed}", "alpha": {"a": 0.0, "b": -0.2}[recipe], "seed": seed, "embedder_acc1": v.mean()}
        for (recipe, seed), v in hits.items()
    ]
    # The rows of per_class come shuffled: pairing is by name.
    classes = per_class({f"{r}{s}": v for (r, s), v in hits.items()}).sample(frac=1, random_state=0)
    table = cells(frame(*rows), classes, (ALPHA,), baseline={"alpha": 0}).set_index("alpha")
    expected = rate_interval([hits["b", 0], hits["b", 1]])
    gap = compare_recipes({r: [hits[r, 0], hits[r, 1]] for r in "ba"}).pairs[0]
    row = table.loc[-0.2]
    assert (row["embedder_acc1_low"], row["embedder_acc1_high"]) == pytest.approx((expected.low, expected.high))
    assert row["embedder_acc1_diff"] == pytest.approx(gap.difference)
    assert (row["embedder_acc1_diff_low"], row["embedder_acc1_diff_high"]) == pytest.approx((gap.low, gap.high))
    assert row["embedder_acc1_verdict"] == gap.verdict and row["embedder_acc1_diff_n"] == 2
    assert bool(table.loc[0.0, "is_baseline"]) and table.loc[0.0, "embedder_acc1_verdict"] == ""


def test_differences_use_the_seeds_and_classes_both_have():
    hits = hit_rates()
    rows = [
        {"trial": f"{r}{s}", "alpha": float(r == "b"), "seed": s + (r == "b"), "embedder_acc1": v.mean()}
        for (r, s), v in hits.items()
    ]
    classes = per_class({f"{r}{s}": v for (r, s), v in hits.items()})
    classes = classes[~((classes["trial"] == "b0") & (classes["class"] == "c3"))]
    row = cells(frame(*rows), classes, (ALPHA,), baseline={"alpha": 0}).iloc[1]
    keep = np.arange(12) != 3
    assert row["embedder_acc1_diff_n"] == 1  # seeds 0, 1 against 1, 2
    assert row["embedder_acc1_diff"] == pytest.approx((hits["b", 0] - hits["a", 1])[keep].mean())
    assert np.isnan(row["embedder_acc1_diff_low"]) and row["embedder_acc1_verdict"] == "inconclusive"


def test_failed_and_missing_trials_count_but_give_no_numbers():
    rows = [
        {"alpha": 0, "seed": 0, "test_acc": 0.9},
        {"alpha": 0, "seed": 1, "test_acc": 0.1, "status": "failed"},
        {"alpha": 0, "seed": 2, "test_acc": None, "status": "missing"},
    ]
    row = cells(frame(*rows), None, (ALPHA,)).iloc[0]
    assert (row["n"], row["failed"], row["missing"]) == (1, 1, 1)
    assert row["test_acc"] == 0.9


def test_the_baseline_follows_the_other_axes():
    rows = [
        {"alpha": a, "loss": loss, "seed": s, "test_acc": v + s / 100}
        for a, loss, v in ((0, "ce", 0.5), (0, "poincare", 0.7), (1, "ce", 0.6), (1, "poincare", 0.6))
        for s in (0, 1)
    ]
    table = cells(frame(*rows), None, (ALPHA, LOSS), baseline={"alpha": 0.0})
    gaps = table.set_index(["alpha", "loss"])["test_acc_diff"]
    assert gaps[1, "ce"] == pytest.approx(0.1) and gaps[1, "poincare"] == pytest.approx(-0.1)
    assert table["is_baseline"].sum() == 2


def test_conditional_axes_may_be_null():
    defense, alpha = Axis(key="defense", bare=True), ALPHA
    rows = [{"defense": "none", "alpha": None, "seed": 0}, {"defense": "smoothing", "alpha": -0.05, "seed": 0}]
    table = cells(frame(*rows), None, (defense, alpha), baseline={"defense": "none", "alpha": None})
    assert table["recipe"].tolist() == ["none", "smoothing, alpha\u00a0\u22120.05"]
    assert table["is_baseline"].tolist() == [True, False]


def test_the_deciding_metric_is_the_independent_judge_where_measured(make_data):
    data = make_data()
    assert summarise(data).primary == "embedder_acc1"
    without = data.results.drop(columns=["embedder_acc1"])
    assert summarise(make_data(results=without)).primary == "attack_acc1"
    neither = without.drop(columns=["attack_acc1"])
    assert summarise(make_data(results=neither, per_class=None)).primary == "dist_face"
    assert summarise(make_data(primary="dist_eval")).primary == "dist_eval"
    nothing = neither[["trial", "seed", "status", "failure", "alpha", "attack_loss", "test_acc"]]
    assert summarise(make_data(results=nothing, per_class=None)).primary is None


def test_values_that_are_the_same_share_a_cell():
    same = [{"alpha": value, "seed": seed} for seed, value in enumerate((0, 0.0, np.int64(0)))]
    assert cells(frame(*same), None, (ALPHA,))["n"].tolist() == [3]
    apart = [{"alpha": value, "seed": seed} for seed, value in enumerate(("0", 0, None))]
    assert len(cells(frame(*apart), None, (ALPHA,))) == 3
    lists = [{"alpha": value, "seed": seed} for seed, value in enumerate(([1, 2], (1, 2)))]
    assert cells(frame(*lists), None, (ALPHA,))["n"].tolist() == [2]
