"""The data model refuses what would become a wrong page."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.result.data import (
    Axis,
    FeatureView,
    PaperReference,
    ReportData,
)


def results(**changes):
    row = {"trial": "aa", "seed": 0, "status": "done", "alpha": 0.0, "test_acc": 0.9} | changes
    return pd.DataFrame([row])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": results(status="ok")}, "status: expected one of done"),
        ({"results": results(test_acc=87.0)}, "test_acc is a fraction"),
        ({"results": pd.concat([results(), results()])}, "trial aa repeats seed 0"),
        ({"results": results().drop(columns="alpha")}, "expected a column 'alpha'"),
        ({"per_class": pd.DataFrame({"trial": ["aa"]})}, "expected a column 'class'"),
        ({"per_class": pd.DataFrame({"trial": ["aa"], "class": ["x"], "attack_acc1": [4.0]})}, "attack_acc1"),
        ({"per_class": pd.DataFrame({"trial": ["aa"] * 2, "class": ["x"] * 2})}, "each class once per trial"),
        ({"baseline": {"alhpa": 0}}, "baseline: expected one of alpha, got alhpa"),
        ({"primary": "leak"}, "primary: expected one of test_acc"),
        ({"reasons": {"leak": "?"}}, "reasons: expected one of"),
        ({"protocol": "both"}, "protocol: expected one of clean, paper"),
        ({"paper": PaperReference(table="1", datasets=("celeba",), standings={})}, "a standing in the paper: expected"),
    ],
)
def test_wrong_data_is_refused_with_a_sentence(changes, message):
    fields = {"title": "t", "results": results(), "axes": (Axis(key="alpha"),)}
    with pytest.raises(ValueError, match=message):
        ReportData(**(fields | changes))


@pytest.mark.parametrize(("points", "drawn"), [(3, 3), (999, 999), (1000, 1000), (1001, 1000), (5000, 1000)])
def test_of_many_points_a_thousand_are_drawn_of_every_class_the_same_share(points, drawn):
    """Half of them of one class, a third of another, a sixth of a third; in no order, and none is drawn twice."""
    shares = np.array([2, 0, 1, 0, 1, 0])[np.arange(points) % 6]
    order = np.random.default_rng(0).permutation(points)
    frame = pd.DataFrame({"class": shares[order], "tsne_x": np.arange(points, dtype=float)[order]})
    found = FeatureView(points=frame, distances=pd.DataFrame())
    assert found.thinned is (points > 1000) and len(found.drawn) == drawn
    assert found.drawn["tsne_x"].is_unique and set(found.drawn["tsne_x"]) <= set(frame["tsne_x"])
    if points <= 1000:
        assert found.drawn is frame
        return
    counts = found.drawn["class"].value_counts()
    for label, whole in frame["class"].value_counts().items():
        assert counts[label] == pytest.approx(whole * drawn / points, abs=2)
    again = FeatureView(points=frame.iloc[::-1], distances=pd.DataFrame())
    assert again.drawn["class"].value_counts().to_dict() == pytest.approx(counts.to_dict(), abs=1)


def test_classes_are_counted_once_and_all_trials_are_those_of_every_kind():
    by_class = pd.DataFrame({"trial": ["aa", "aa", "ab"], "class": ["x", "y", "x"], "attack_acc1": [0.5, 0.25, 1.0]})
    fields = {"title": "t", "results": results(), "axes": (Axis(key="alpha"),)}
    assert ReportData(**fields, per_class=by_class).judged_classes == 2
    assert ReportData(**fields).judged_classes is None
    assert ReportData(**fields, per_class=by_class.iloc[:0]).judged_classes is None
    fresh, others = results(trial="fresh", seed=7), pd.concat([results(trial="o1"), results(trial="o2", seed=3)])
    for given, named in (
        ({}, ["aa"]),
        ({"fresh": fresh}, ["aa", "fresh"]),
        ({"fresh": fresh.iloc[:0]}, ["aa"]),
        ({"fresh": fresh, "others": others}, ["aa", "fresh", "o1", "o2"]),
    ):
        every = ReportData(**fields, **given).every_trial
        assert every["trial"].tolist() == named and every.index.tolist() == list(range(len(named)))
