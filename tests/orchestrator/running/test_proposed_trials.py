"""A trial that a search has proposed is made again in its own process: from the same files, or it fails by name."""

import json

import pytest
from tiny import write_tiny

from smoothsweep.orchestrator.planning.proposals import trials_of
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


def test_another_trial_than_was_planned_fails_under_the_planned_name_and_runs_nothing(asked):
    trials, drive = asked
    result, scheduler = drive(1, trials[0].id)
    [(told, failure)] = scheduler.ended
    assert told == trials[0].id and failure == result["failure"] and scheduler.stages == []
    assert failure.startswith(f"expected trial {trials[0].id}, as planned, got {trials[1].id}")
