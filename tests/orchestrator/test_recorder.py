"""Recording beside the work: a tracker that is away delays nothing and loses nothing."""

import pytest
from tiny import write_tiny

from core.errors import InputError
from orchestrator import recorder as module
from orchestrator.recorder import Recorder
from orchestrator.trial import trials_of
from sweeps.load import load_sweep


class FakeTracker:
    """Stands where MLflow would: fails as often as told, then keeps what it is given."""

    def __init__(self, failures):
        self.failures, self.recorded, self.closed = failures, [], []

    def sweep_run(self, name, tags):
        return "parent"

    def record(self, trial, parent, failure):
        if self.failures:
            self.failures -= 1
            raise OSError("connection refused")
        self.recorded.append((trial.id, parent, failure))

    def close_sweep(self, parent, files, failed):
        self.closed.append((parent, failed))


@pytest.fixture
def trials(tmp_path):
    return trials_of(load_sweep(write_tiny(tmp_path)))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "RETRY_AFTER_S", (0, 0))


def test_a_short_outage_is_sat_out(trials):
    tracker = FakeTracker(failures=2)
    recorder = Recorder(lambda: tracker, "tiny", {})
    recorder.add(trials[0])
    recorder.add(trials[1], "diverged")
    recorder.finish()
    recorder.close([], failed=1)
    assert tracker.recorded == [(trials[0].id, "parent", None), (trials[1].id, "parent", "diverged")]
    assert tracker.closed == [("parent", 1)] and not recorder.unwritten


def test_a_long_outage_is_named_and_later_trials_wait_no_more(trials):
    tracker = FakeTracker(failures=4)
    recorder = Recorder(lambda: tracker, "tiny", {})
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    assert set(recorder.unwritten) == {trial.id for trial in trials}
    assert "connection refused" in recorder.unwritten[trials[0].id]
    assert tracker.failures == 0, "three tries for the first trial, a single one for the next"


def test_a_tracker_that_never_opens_is_named(trials):
    def away():
        raise InputError("no server")

    recorder = Recorder(away, "tiny", {})
    recorder.add(trials[0])
    recorder.finish()
    assert recorder.unwritten == {trials[0].id: "no server"}
