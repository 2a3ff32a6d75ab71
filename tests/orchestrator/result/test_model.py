"""The data model refuses what would become a wrong page."""

import pandas as pd
import pytest

from smoothsweep.orchestrator.result.data import (
    Axis,
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
