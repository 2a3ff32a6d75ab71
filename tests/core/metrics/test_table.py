"""The table of metrics, against whoever measures them and whoever speaks of them."""

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, CLOSED_SET, METRICS, metric_of
from smoothsweep.sweeps.judging import Judges
from smoothsweep.sweeps.search import OBJECTIVES, Search

JUDGES = tuple(Judges.model_fields)


def test_every_metric_stands_once_and_names_judges_that_a_sweep_can_have():
    assert len(BY_KEY) == len(METRICS)
    assert {metric.judge for metric in METRICS} - {None} == set(JUDGES)
    for metric in METRICS:
        assert metric.label and metric.description.endswith("."), metric.key


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


def test_what_only_some_attacks_report_may_be_null():
    facts = {fact for attack in ATTACKS.values() for fact in attack.facts if fact in BY_KEY}
    assert facts == {"gradient_cosine", "num_frozen"}
    for key in (*facts, "queries", "target_conf"):
        assert metric_of(key).measured_by == "attack" and metric_of(key).null


def test_a_search_aims_at_no_metric_that_nothing_measures():
    assert all(metric_of(column).measured_by for column in OBJECTIVES)
    assert {metric_of(column).group for column, judge in OBJECTIVES.items() if judge} == {"leak"}
    aims = {"test_acc": "max", "gradient_cosine": "max", "fid": "max"}
    search = Search(strategy="random", recipes=1, space={"recipe.lr": {"low": 0.1, "high": 0.2}}, objectives=aims)
    assert search.leaks == {"fid": "max"}
