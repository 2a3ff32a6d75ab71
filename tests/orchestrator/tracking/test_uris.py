"""Where MLflow's data may be, and what one file of SQLite serves."""

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
import threading
import time

import pytest
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.server import connect, local_uri
from tests.dear import first_of
from tests.mlflow_look import files, look, record

PASSWORD = "Qz7%40x%3Ay%2Fz"  # Qz7@x:y/z
PIECES = re.compile("Qz7|x:y|x%3Ay")


def refused(uri, capfd, *, ours=False):
    """What the line says that refuses the URI, of which nothing else is printed."""
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        connect(uri, ours=ours)
    assert time.monotonic() - started < 60, "no retries of minutes"
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500 and not PIECES.search(line), line
    assert line.startswith("--tracking-uri ") and "expected an MLflow tracking store, got" in line
    assert capfd.readouterr() == ("", "")
    return line.split("tracking store, got", 1)[1]


def closes(peer):
    """A service that hangs up."""


def is_silent(peer):
    while peer.recv(1000):
        pass


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
    """A port of this machine at which something answers so."""

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


@pytest.mark.parametrize("behaviour", [closes, is_silent, answers_nonsense, dribbles])
@pytest.mark.parametrize("scheme", ["http", "https", "postgresql+psycopg2", "mysql+pymysql"])
def test_a_port_with_something_else_on_it(scheme, behaviour, hasty, capfd):
    with service(behaviour) as port:
        refused(f"{scheme}://me:{PASSWORD}@127.0.0.1:{port}/mlflow", capfd)


def says(status, kind, text):
    """A web server that answers everything so."""
    head = f"HTTP/1.1 {status} so\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"

    def answer(peer):
        peer.recv(10_000)
        peer.sendall(f"{head}{text}".encode())

    return answer


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "nonsense",
        "http://",
        "http://host:port",
        "postgresql+nothing://u@127.0.0.1/db",
        "postgresql://me:Qz7",
        "postgresql://me:Qz7@x:y/z@127.0.0.1/db",
        "http://me:Qz7/x:y@127.0.0.1:1",
        "s3://bucket/x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://host/x",
        "http://127.0.0.1:99999",
        "http://\n/",
        "sqlite:///\0",
    ],
)
def test_what_is_no_uri_of_a_tracking_store(uri, hasty, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(uri, capfd)
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize("start", ["http://", "postgresql+psycopg2://me:secret@"])
def test_nobody_there_is_said_at_once(start, capfd):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert "refused" in refused(f"{start}127.0.0.1:{port}", capfd).lower()


def test_ctrl_c_ends_the_wait_for_a_silent_database():
    code = (
        "import sys\nfrom smoothsweep.orchestrator.cluster import interrupts\n"
        "from smoothsweep.orchestrator.tracking import server\nserver.PROBE_S = 600\n"
        "interrupts.listen()\nprint('asking', flush=True)\n"
        "try:\n    server.connect(sys.argv[1])\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    connections = threading.Semaphore(0)

    def notes(peer):
        connections.release()
        is_silent(peer)

    with service(notes) as port:
        uri = f"postgresql+psycopg2://me@127.0.0.1:{port}/mlflow"
        asking = subprocess.Popen([sys.executable, "-c", code, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert asking.stdout.readline() == b"asking\n"
        assert connections.acquire(timeout=60)
        time.sleep(0.5)  # the driver waits for its answer
        asking.send_signal(signal.SIGINT)
        assert asking.wait(timeout=60) == 130, "it waited for the server"
        assert asking.stderr.read() == b""


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
