"""Whatever stands at a tracking URI: one line in seconds, without a password, and nothing else is printed."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow_look import files, look

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.running.recorder import Patience, Recorder, open_recorder
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.tracking import Tracker, local_uri, refusals, told
from smoothsweep.orchestrator.tracking.server import connection, databases
from smoothsweep.orchestrator.tracking.server.connection import connect
from smoothsweep.orchestrator.tracking.server.deadline import within
from tests.dear import first_of

PASSWORD = "Qz7%40x%3Ay%2Fz"  # Qz7@x:y/z
PIECES = re.compile("Qz7|x:y|x%3Ay")
SCHEMES = ("http", "https", "postgresql+psycopg2", "postgresql", "mysql+pymysql", "mssql+pyodbc")
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nhello"


def closes(peer):
    """A service that hangs up."""


def is_silent(peer):
    while peer.recv(1000):
        pass


def answers_a_page(peer):
    peer.recv(1000)
    peer.sendall(PAGE)


def answers_nonsense(peer):
    peer.sendall(bytes(range(256)))
    is_silent(peer)


def dribbles(peer):
    """It would keep a client for days that waits for each byte anew."""
    with contextlib.suppress(OSError):
        for byte in itertools.chain(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", itertools.repeat(46)):
            peer.sendall(bytes([byte]))
            time.sleep(0.05)


@contextlib.contextmanager
def service(behaviour):
    """A port of this machine at which something answers so; 0 for one at which nobody does."""

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listening.accept()
                threading.Thread(target=attend, args=(peer,), daemon=True).start()

    def attend(peer):
        with peer, contextlib.suppress(OSError):
            behaviour(peer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(connection, "PROBE_S", 0.75)  # twice that is more than the patience with a lock
    monkeypatch.setattr(databases, "PATIENCE_S", 1.0)


def refused(uri, capfd, seconds=60.0):
    """The line that refuses the URI, of which nothing else is printed."""
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        connect(uri)
    assert time.monotonic() - started < seconds
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500 and not PIECES.search(line), line
    assert line.startswith("--tracking-uri ") and "expected an MLflow tracking store, got" in line
    assert capfd.readouterr() == ("", "")
    return line


@pytest.mark.parametrize("behaviour", [closes, is_silent, answers_a_page, answers_nonsense, dribbles])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_port_with_something_else_on_it(scheme, behaviour, hasty, capfd):
    with service(behaviour) as port:
        refused(f"{scheme}://me:{PASSWORD}@127.0.0.1:{port}/mlflow", capfd)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        " ",
        "nonsense",
        "/tmp",
        "gopher://host",
        "http://",
        "http://[::1",
        "http://host:port",
        "postgresql://",
        "postgresql+nothing://u@127.0.0.1/db",
        "postgresql://me:Qz7",
        "postgresql://me:Qz7@x:y/z@127.0.0.1/db",
        "://",
        "http://me:Qz7/x:y@127.0.0.1:1",
        "s3://bucket/x",
        "file:///tmp/x",
        "uc:x",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/x",
        "http://127.0.0.1:99999",
        "http://exa mple/",
        "http://\n/",
        "sqlite:///\0",
    ],
)
def test_what_is_no_uri_of_a_tracking_store(uri, hasty, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(uri, capfd)
    assert list(tmp_path.iterdir()) == [], "nothing is written"


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


CODE = """
import os, sys
sys.path[:0] = {path}
from smoothsweep.orchestrator.tracking.server.databases import ask_sqlite, sqlite_path
sqlite_path({uri!r})  # loads what may not be readable afterwards
os.setuid(65534)
try:
    ask_sqlite({uri!r})
except Exception as error:
    print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody who may not write")
def test_a_database_that_may_not_be_written(empty_database):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to others
        folder, said = Path(name), []
        folder.chmod(0o755)
        shutil.copy(empty_database, folder / "mlflow.db")
        (folder / "mlflow.db").chmod(0o444)
        for file in ("mlflow.db", "new.db"):
            code = CODE.format(path=sys.path, uri=f"sqlite:///{folder / file}")
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
            said.append(done.stdout)
    assert said == ["attempt to write a readonly database\n", f"a folder that cannot be written: {folder}\n"]


@pytest.mark.parametrize("moving", first_of([shutil.move, shutil.copytree]))
def test_artifacts_follow_a_store_that_was_moved_or_copied(moving, load, store, finished, tmp_path):
    loaded = load(seeds=[1])
    first, second = finished(loaded)
    record(loaded, store, [first])
    there = LocalStore(root=tmp_path / "else where" / "100% mine")
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


def test_a_database_that_was_moved_alone_says_where_the_artifacts_are(load, store, finished, tmp_path):
    loaded = load(seeds=[1])
    trials = finished(loaded)
    record(loaded, store, trials[:1])
    there = LocalStore(root=tmp_path / "elsewhere")
    shutil.copytree(store.root, there.root, ignore=shutil.ignore_patterns("mlartifacts"))
    remarks = record(loaded, there, trials)
    assert remarks == [f"MLflow: the artifacts of earlier runs of tiny are still in {store.root}/mlartifacts/tiny"]


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

    recorder = Recorder(open_tracker, "tiny", {}, patience=patience, told=lambda error: told(error, uri))
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


def test_what_goes_wrong_after_the_first_answer_is_one_line_too(load, store, monkeypatch, hasty):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Tracker, "sweep_run", full)
    with pytest.raises(InputError, match=r"^--tracking-uri .*: expected an MLflow .*, got: database or disk is full$"):
        open_recorder(load(), store, local_uri(store))


def test_an_empty_uri_is_not_taken_for_none(load, store):
    with pytest.raises(InputError, match="--tracking-uri : expected"):
        open_recorder(load(), store, "")


def test_a_deadline_gives_what_the_work_gives():
    assert within(5, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        within(0.1, lambda: time.sleep(1))
    with pytest.raises(InputError, match=r"x: expected an MLflow .*, got: no answer within 0\.1 s"), refusals("x"):
        within(0.1, lambda: time.sleep(1))


def test_ctrl_c_ends_the_wait_for_a_silent_database():
    code = (
        "import sys\nfrom smoothsweep.orchestrator.cluster import interrupts\n"
        "from smoothsweep.orchestrator.tracking.server import connection\nconnection.PROBE_S = 600\n"
        "interrupts.listen()\nprint('asking', flush=True)\n"
        "try:\n    connection.connect(sys.argv[1])\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    connections = threading.Semaphore(0)

    def notes(peer):
        connections.release()
        is_silent(peer)

    with service(notes) as port:
        uri = f"postgresql+psycopg2://me@127.0.0.1:{port}/mlflow"
        asking = subprocess.Popen([sys.executable, "-c", code, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert asking.stdout.readline() == b"asking\n"
        for _ in range(2):  # whether anybody listens, then the question
            assert connections.acquire(timeout=60)
        time.sleep(0.5)  # the driver waits for its answer
        asking.send_signal(signal.SIGINT)
        assert asking.wait(timeout=60) == 130, "it waited for the server"
        assert asking.stderr.read() == b""
