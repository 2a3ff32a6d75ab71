"""Why a column of `results` is null: who was to measure it, and whether it has finished."""

import pytest
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.columns import BY_KEY, METRICS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import missing_reasons
from smoothsweep.sweeps.load import load_sweep


def trial_of(folder, **changes):
    return trials_of(load_sweep(write_tiny(folder, **changes)))[-1]


def reasons(trial, *, done=(), metrics=None):
    return missing_reasons(trial, metrics or {}, tuple(BY_KEY), set(done))


def test_everything_waits_for_its_stage_or_has_no_judge(tmp_path):
    found = reasons(trial_of(tmp_path, judges={}))
    assert set(found) == set(BY_KEY)
    for metric in METRICS:
        if metric.judge:
            assert found[metric.key] == f"the sweep has no {metric.judge} judge"
        elif metric.measured_by == "backdoor":
            assert found[metric.key] == "the training set has no backdoor (recipe.poison)"
        elif JUDGES.get(metric.measured_by.removeprefix("judge_") if metric.measured_by else "", Judge).accompanies:
            assert found[metric.key] == metric.null and "the judge's key verify" in found[metric.key]
        elif metric.measured_by:
            assert found[metric.key] == "the stage that measures it has not finished"
    assert "300" in reasons(trial_of(tmp_path), done=("judge_evaluator",))["dist_knn"]


def test_what_was_measured_has_no_reason(tmp_path):
    found = reasons(trial_of(tmp_path), metrics={"test_acc": 0.5, "queries": 0.0})
    assert "test_acc" not in found and "queries" not in found and "ece" in found


@pytest.mark.parametrize("column", ["queries", "target_conf", "gradient_cosine", "num_frozen"])
def test_an_attack_that_is_done_says_what_it_has_not(tmp_path, column):
    attacks = [tiny_sweep()["attack"], {"kind": "random_latents", "selected": 2}]
    trial = trial_of(tmp_path, grid={"attack": attacks}, baseline={})
    assert trial.settings.attack.built.access == "none"
    assert reasons(trial, done={"attack"})[column] == BY_KEY[column].null
    assert reasons(trial, done={"target"})[column] == "the stage that measures it has not finished"
