"""SQLite files at a tracking URI: damaged, held, of another kind, moved, or lost in the middle of a run."""

import contextlib
import os
import re
import shutil
import sqlite3
from dataclasses import replace

import pytest
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow_look import files, look

from smoothsweep.orchestrator.running.recorder import Patience, Recorder, open_recorder
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking import Tracker, error_line, local_uri
from tests.dear import first_of
from tests.orchestrator.tracking.server.services import refused


def a_folder(path):
    path.mkdir()


def in_no_folder(path):
    return path / "mlflow.db"


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    return "/dev/null"


def another_file(path):
    path.write_bytes(b"not a database, " * 100)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:5000])


def overwritten(path):
    path.write_bytes(path.read_bytes()[:200] + bytes(4000) + path.read_bytes()[4200:])


def of_a_later_mlflow(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")


@pytest.mark.parametrize("state", [a_folder, in_no_folder, a_pipe, a_device, another_file])
def test_an_sqlite_path_with_something_else_there(state, hasty, capfd, tmp_path):
    path = tmp_path / "there"
    refused(f"sqlite:///{state(path) or path}", capfd)


@pytest.mark.parametrize("state", [cut_short, overwritten, of_a_later_mlflow])
def test_a_database_that_is_damaged_or_newer(state, hasty, capfd, store):
    state(store.root / "mlflow.db")
    refused(local_uri(store), capfd)


@pytest.fixture
def locked(store):
    """Another process's exclusive lock, as far as SQLite can tell."""
    with contextlib.closing(sqlite3.connect(store.root / "mlflow.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_a_database_that_another_process_holds(locked, store, hasty, capfd):
    assert "database is locked" in refused(local_uri(store), capfd)


@pytest.mark.parametrize("moving", first_of([shutil.move, shutil.copytree]))
def test_artifacts_follow_a_store_that_was_moved_or_copied(moving, load, store, finished, tmp_path):
    loaded = load(seeds=[1])
    first, second = finished(loaded)
    record(loaded, store, [first])
    there = Store(root=tmp_path / "else where" / "100% mine")
    there.root.parent.mkdir()
    moving(store.root, there.root)
    _artifact_repos_cache.clear()  # of another process, so to speak
    before = sorted(path.relative_to(store.root) for path in store.root.rglob("*"))
    assert record(loaded, there, [first, second]) == []
    client, kinds = look(local_uri(there), "tiny")
    for run in (*kinds["trial"], *kinds["sweep"]):
        assert run.info.artifact_uri.startswith(there.root.as_uri() + "/")
        assert files(client, run), "its artifacts are found"
    assert len(kinds["trial"]) == 2
    assert sorted(path.relative_to(store.root) for path in store.root.rglob("*")) == before, "nothing is written there"


def record(loaded, store, trials):
    recorder = open_recorder(loaded, store, None, models="none")
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close([], failed=0)
    assert not recorder.unwritten
    return recorder.remarks


def removed(path):
    path.unlink()


def moved(path):
    path.rename(path.with_name("elsewhere.db"))


@pytest.mark.parametrize("happens", [removed, moved, another_file])
def test_a_database_that_is_lost_in_the_middle_of_a_run(happens, load, store, finished, hasty, capfd, monkeypatch):
    loaded = load(seeds=[1, 2])
    trials, uri = finished(loaded), local_uri(store)
    patience = Patience(first=0.1, most=0.2, finish=60.0)

    def open_tracker():
        return Tracker(uri, store=store, experiment="tiny", loaded=loaded)

    recorder = Recorder(open_tracker, "tiny", {}, patience=patience, error_line=lambda error: error_line(error, uri))
    recorder.add(trials[0])
    recorder.finish()
    assert not recorder.unwritten
    monkeypatch.setattr(recorder, "_patience", replace(patience, finish=2.0))  # from here on nothing answers
    happens(store.root / "mlflow.db")
    for trial in trials[1:]:
        recorder.add(trial)
    recorder.finish()
    recorder.close([], failed=0)
    assert set(recorder.unwritten) == {"report", *(trial.id for trial in trials[1:])}
    for reason in recorder.unwritten.values():
        assert len(reason) < 200 and not re.search(r"SQL|INSERT|Traceback|\n", reason), reason
    assert capfd.readouterr() == ("", "")
