"""SQLite files at a tracking URI: whole or absent, healed where they are ours and unreadable, never thrown away."""

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow_look import files, look, record

from smoothsweep.orchestrator.running.recorder import Patience, Recorder
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.server import connect, error_line, local_uri
from smoothsweep.orchestrator.tracking.tracker import Tracker
from tests.dear import first_of
from tests.orchestrator.tracking.test_uris import refused

CONNECT = "import sys; from smoothsweep.orchestrator.tracking.server import connect; connect(sys.argv[1], ours=True)"


def change(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def schema(path):
    """What there is, and the columns of every table; the order within MLflow's checks differs from time to time."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT type, name FROM sqlite_master").fetchall()
        tables = [name for kind, name in found if kind == "table"]
        return sorted(found), {name: database.execute(f'PRAGMA table_xinfo("{name}")').fetchall() for name in tables}


STATES = {  # what is done to a path; a place that it gives stands for it
    "a folder": lambda path: path.mkdir(),
    "in no folder": lambda path: path / "mlflow.db",
    "a pipe": os.mkfifo,
    "a device": lambda path: "/dev/null",
    "nothing of it": lambda path: path.write_bytes(b"") and None,
    "another file": lambda path: path.write_bytes(b"not a database, " * 100) and None,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:5000]) and None,
    "a page overwritten": lambda path: (
        path.write_bytes((content := path.read_bytes())[:4096] + bytes(range(256)) * 16 + content[8192:]) and None
    ),
    "a later MLflow's": lambda path: change(path, "UPDATE alembic_version SET version_num = 'ffffffffffff'"),
}


@pytest.mark.parametrize("state", ["a folder", "in no folder", "a pipe", "a device", "another file"])
def test_an_sqlite_path_with_something_else_there(state, hasty, capfd, tmp_path):
    path = tmp_path / "there"
    refused(f"sqlite:///{STATES[state](path) or path}", capfd)


@pytest.mark.parametrize("damage", ["another file", "cut short", "a later MLflow's"])
def test_what_cannot_be_used_and_may_not_be_replaced_is_refused_and_never_touched(damage, hasty, capfd, store):
    path = store.root / "mlflow.db"
    STATES[damage](path)
    before = path.read_bytes()
    refused(local_uri(store), capfd, ours=damage == "a later MLflow's")
    assert path.read_bytes() == before and [other.name for other in store.root.iterdir()] == ["mlflow.db"]


def test_a_database_that_another_process_holds(store, hasty, capfd):
    with contextlib.closing(sqlite3.connect(store.root / "mlflow.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in refused(local_uri(store), capfd)


@pytest.mark.parametrize("damage", ["nothing of it", "another file", "a page overwritten"])
def test_an_unreadable_database_is_set_aside_and_a_sweep_recorded_anew(
    damage, load, store, finished, empty_database, capfd
):
    path = store.root / "mlflow.db"
    STATES[damage](path)
    damaged = path.read_bytes()
    if not damaged:  # a journal of another file would be played back into the new one
        path.with_name("mlflow.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(2040))
    for _ in range(2):
        assert connect(local_uri(store), ours=True).search_experiments()
        assert schema(path) == schema(empty_database)
    (aside,), said = store.root.glob("mlflow.db.*"), capfd.readouterr().err
    assert aside.name.endswith("-journal") != bool(damaged)
    if damaged:
        assert aside.read_bytes() == damaged, "what somebody may want to look into is kept"
        assert said.count("\n") == 1 and str(path) in said and aside.name in said
    else:
        assert not said
    if damage == "a page overwritten":
        loaded = load(seeds=[1])
        trials = finished(loaded)
        record(loaded, store, trials)
        _, kinds = look(local_uri(store), "tiny")
        assert len(kinds["trial"]) == len(trials) and all(run.info.status == "FINISHED" for run in kinds["trial"])


def test_two_drivers_that_begin_at_once_find_one_whole_database_also_where_one_is_killed(tmp_path, empty_database):
    """MLflow makes its tables without a lock, in many steps."""
    path = tmp_path / "mlflow.db"
    begun = [subprocess.Popen([sys.executable, "-c", CONNECT, f"sqlite:///{path}"]) for _ in range(2)]
    late = time.monotonic() + 120
    while not path.exists() and time.monotonic() < late:
        time.sleep(0.002)
    begun[0].kill()
    assert begun[1].wait(timeout=240) == 0
    begun[0].wait()
    assert schema(path) == schema(empty_database)
    assert connect(f"sqlite:///{path}").search_experiments()


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
    assert record(loaded, there, [first, second]).remarks == []
    client, kinds = look(local_uri(there), "tiny")
    for run in (*kinds["trial"], *kinds["sweep"]):
        assert run.info.artifact_uri.startswith(there.root.as_uri() + "/")
        assert files(client, run), "its artifacts are found"
    assert len(kinds["trial"]) == 2
    assert sorted(path.relative_to(store.root) for path in store.root.rglob("*")) == before, "nothing is written there"


@pytest.mark.parametrize("happens", ["removed", "another file"])
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
    (os.unlink if happens == "removed" else STATES[happens])(store.root / "mlflow.db")
    for trial in trials[1:]:
        recorder.add(trial)
    recorder.finish()
    recorder.close(trials, failed=0)
    assert set(recorder.unwritten) == {"report", *(trial.id for trial in trials[1:])}
    for reason in recorder.unwritten.values():
        assert len(reason) < 200 and not re.search(r"SQL|INSERT|Traceback|\n", reason), reason
    assert capfd.readouterr() == ("", "")
