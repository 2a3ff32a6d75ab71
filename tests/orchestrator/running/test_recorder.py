"""Recording beside the work: a tracker that is away delays nothing and loses nothing."""

import threading
import time

import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.running.recorder import REPORT, Patience, Recorder
from smoothsweep.sweeps.load import load_sweep

SHORT = Patience(first=0.01, most=0.02, finish=0.3)


class FakeTracker:
    """Stands where MLflow would: away, or refusing some trials, as told; keeps what it is given."""

    def __init__(self, *, away=0, refused=()):
        self.away, self.refused = away, set(refused)
        self.recorded, self.closed, self.refreshed, self.parents = [], [], 0, 0

    def sweep_run(self, name, tags):
        self.parents += 1
        return "parent"

    def answers(self):
        return self.away <= 0

    def refresh(self):
        self._reach()
        self.refreshed += 1

    def record(self, trial, parent, failure):
        self._reach()
        if trial.id in self.refused:
            raise OSError("refused: a param of another value")
        self.recorded.append((trial.id, parent, failure))

    def close_sweep(self, parent, trials, *, failed, models, **_):
        self._reach()
        self.closed.append((parent, failed, models, len(trials)))
        return ["a remark"]

    def _reach(self):
        if self.away > 0:
            self.away -= 1
            raise OSError("connection refused")


@pytest.fixture
def trials(tmp_path):
    return trials_of(load_sweep(write_tiny(tmp_path, seeds=[1, 2])))


def recorder_of(tracker, **changes):
    return Recorder(lambda: tracker, "tiny", {}, patience=Patience(**{**vars(SHORT), **changes}))


def test_everything_is_written_in_order_and_closed_once(trials):
    tracker = FakeTracker()
    recorder = recorder_of(tracker)
    recorder.add(trials[0])
    recorder.add(trials[1], "diverged")
    recorder.finish()
    recorder.close(trials, failed=1)
    assert tracker.recorded == [(trials[0].id, "parent", None), (trials[1].id, "parent", "diverged")]
    assert tracker.closed == [("parent", 1, "none", len(trials))] and not recorder.unwritten
    assert recorder.remarks == ["a remark"] and tracker.refreshed == 0 and tracker.parents == 1


def test_an_outage_is_sat_out_however_many_attempts_it_takes(trials):
    tracker = FakeTracker(away=12)
    recorder = recorder_of(tracker, finish=30)
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    assert [entry[0] for entry in tracker.recorded] == [trial.id for trial in trials] and not recorder.unwritten
    assert tracker.refreshed == 1, "what seemed lost is looked up before anything is written again"


def test_adding_returns_at_once_while_the_tracker_never_answers(trials):
    never = threading.Event()

    class Stuck(FakeTracker):
        def record(self, trial, parent, failure):
            never.wait(200)

    recorder = recorder_of(Stuck())
    started = time.monotonic()
    for trial in trials:
        recorder.add(trial)
    assert time.monotonic() - started < 60, "adding waits for nobody"
    recorder.finish()
    recorder.close(trials, failed=0)
    assert time.monotonic() - started < 120, "the end of the sweep waits a bounded time"
    assert set(recorder.unwritten) == {*(trial.id for trial in trials), REPORT}
    never.set()


def test_a_long_outage_is_named_with_every_trial_that_is_missing(trials):
    tracker = FakeTracker(away=10**9)
    recorder = recorder_of(tracker)
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close(trials, failed=0)
    assert recorder.unwritten == dict.fromkeys([*(trial.id for trial in trials), REPORT], "connection refused")
    assert not tracker.recorded and not tracker.closed


def test_a_trial_that_is_refused_does_not_keep_the_others(trials):
    tracker = FakeTracker(refused=[trials[0].id])
    recorder = recorder_of(tracker, finish=30)
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close(trials, failed=0)
    assert [entry[0] for entry in tracker.recorded] == [trial.id for trial in trials[1:]]
    assert set(recorder.unwritten) == {trials[0].id} and tracker.closed


def test_a_tracker_that_never_opens_is_named(trials):
    def away():
        raise InputError("no server")

    recorder = Recorder(away, "tiny", {}, patience=SHORT)
    recorder.add(trials[0])
    recorder.finish()
    assert recorder.unwritten == {trials[0].id: "no server"}
