"""A trial that a search has proposed is made again in its own process: from the same files, or it fails by name."""

import json

import pytest
from tiny import write_tiny

from smoothsweep.orchestrator.planning.trial import stages_to_start_early
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.running import tuning
from smoothsweep.sweeps.load import load_sweep


class Scheduler:
    """Notes what is asked of it; every method is called as Ray's are."""

    def __init__(self):
        self.stages, self.ended = [], []
        self.ensure, self.trial_ended = self, self

    def remote(self, *given):
        (self.stages if len(given) == 1 else self.ended).append(given)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    trials = trials_of(load_sweep(write_tiny(tmp_path)))

    def make(values, beside):
        return trials[values["place"]].cell

    monkeypatch.setattr(tuning, "_cell_maker", lambda raw, source: make)
    monkeypatch.setattr(tuning.ray, "get", lambda reference: None)

    def drive(place, planned_as):
        scheduler = Scheduler()
        config = {
            "trial": planned_as,
            "values": json.dumps({"place": place}),
            "beside": "{}",
            "seed": 1,
            "phase": "sweep",
        }
        return tuning.drive_proposals(config, "{}", "a sweep", scheduler), scheduler

    return trials, drive


@pytest.mark.parametrize("place", [0, 1])
def test_the_same_trial_is_run(asked, place):
    trials, drive = asked
    result, scheduler = drive(place, trials[place].id)
    assert result == {"failed": 0, "failure": ""} and scheduler.ended == [(trials[place].id, None)]
    early = stages_to_start_early(trials[place].stages)
    assert [stage.fingerprint for (stage,) in scheduler.stages[: len(early)]] == [one.fingerprint for one in early]
    assert {stage.fingerprint for (stage,) in scheduler.stages[len(early) :]} == {
        one.fingerprint for one in trials[place].stages
    }


def test_another_trial_than_was_planned_fails_under_the_planned_name_and_runs_nothing(asked):
    trials, drive = asked
    result, scheduler = drive(1, trials[0].id)
    [(told, failure)] = scheduler.ended
    assert told == trials[0].id and failure == result["failure"] and scheduler.stages == []
    assert failure.startswith(f"expected trial {trials[0].id}, as planned, got {trials[1].id}")


def test_what_failed_early_fails_the_judge_that_needs_it_and_is_not_tried_again(asked, monkeypatch):
    trials, drive = asked
    [lost] = [one for one in stages_to_start_early(trials[0].stages) if one.name == "target"]

    def remote(self, *given):
        (self.stages if len(given) == 1 else self.ended).append(given)
        return given[0]

    def get(reference):
        if getattr(reference, "fingerprint", "") == lost.fingerprint:
            raise RuntimeError("no memory")

    monkeypatch.setattr(Scheduler, "remote", remote)
    monkeypatch.setattr(tuning.ray, "get", get)
    result, scheduler = drive(0, trials[0].id)
    assert result["failed"] == 1 and "no memory" in result["failure"]
    assert [stage.fingerprint for (stage,) in scheduler.stages].count(lost.fingerprint) == 1
    assert {"target", "attack"} <= {stage.name for (stage,) in scheduler.stages}
    assert "judge_evaluator" not in {stage.name for (stage,) in scheduler.stages}
