"""A real server on PostgreSQL, started by the project's script: recorded through, stopped, killed, brought back."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from mlflow_look import doubled, look

from smoothsweep.orchestrator.running.recorder import Patience, Recorder
from smoothsweep.orchestrator.tracking.tracker import Tracker

pytestmark = pytest.mark.slow

PASSWORD = "password"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The script with its options. `control(command)` returns what it printed, and fails with it."""

    def __init__(self, repository, folder):
        self.script, self.folder = repository / "deploy" / "mlflow-postgres.sh", folder
        self.port, self.pg_port = free_port(), free_port()
        self.uri = f"http://127.0.0.1:{self.port}"

    def run(self, command):
        options = ["--dir", self.folder, "--port", self.port, "--pg-port", self.pg_port, "--python", sys.executable]
        words = ["bash", "-x", *(str(word) for word in (self.script, command, *options))]  # stderr: all that is run
        return subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)

    def control(self, command):
        done = self.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def processes(self):
        """MLflow's processes: the server leads a group of its own."""
        leader = int((self.folder / "mlflow.pid").read_text())
        return [p.pid for p in psutil.process_iter() if p.pid and os.getpgid(p.pid) == leader]

    def signal(self, number):
        for pid in self.processes():
            os.kill(pid, number)


@pytest.fixture(scope="module")
def server(repository):
    if shutil.which("pg_ctl") is None and not list(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")):
        pytest.skip("no PostgreSQL on this machine")
    folder = Path(tempfile.mkdtemp(prefix="smoothsweep-server-"))
    folder.chmod(0o755)  # as root the database runs as another user
    server = Server(repository, folder)
    try:
        server.first = server.run("start")
        assert server.first.returncode == 0, server.first.stderr
        yield server
    finally:
        server.run("stop")
        shutil.rmtree(folder)


def recorder_for(loaded, store, server, trials=(), **patience):
    """A recorder of these trials that is patient in its own way."""
    patience = Patience(**{"first": 0.2, "most": 1, **patience})
    open_tracker = partial(Tracker, server.uri, store=store, experiment=loaded.sweep.name, loaded=loaded)
    recorder = Recorder(open_tracker, loaded.sweep.name, {}, patience=patience)
    for trial in trials:
        recorder.add(trial)
    return recorder


def first_written(loaded, store, server, trial, **patience):
    """A recorder that has written one trial and goes on."""
    recorder = recorder_for(loaded, store, server, [trial], **patience)
    wait_for(lambda: recorder.parent and not recorder._waiting)
    return recorder


def check_complete(server, name, trials, recipes):
    client, kinds = look(server.uri, name)
    assert [len(kinds[kind]) for kind in ("sweep", "trial", "recipe")] == [1, trials, recipes]
    assert {run.info.status for runs in kinds.values() for run in runs} == {"FINISHED"}
    assert not doubled(client, [run for runs in kinds.values() for run in runs])
    return client, kinds


def test_start_is_idempotent_private_and_local(server):
    assert server.control("start").count("already runs") == 2
    assert "MLflow answers" in server.control("status")
    secret = server.folder / PASSWORD
    assert secret.stat().st_mode & 0o777 == 0o600 and len(secret.read_text().strip()) == 32
    command_lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [line for line in command_lines if secret.read_text().strip() in line]
    builtins = ("printf", "say")  # of bash: no process, no command line
    run = [words for line in server.first.stderr.splitlines() if line.startswith("+") and (words := line.lstrip("+ "))]
    assert any("initdb" in words for words in run) and any("psql" in words for words in run)
    passwords = [(server.folder / name).read_text().strip() for name in (PASSWORD, "admin-password")]
    assert not [words for words in run if any(p in words for p in passwords) and not words.startswith(builtins)]
    logs = [*server.folder.glob("*.log"), *(server.folder / "postgres").rglob("*.log")]
    assert len(logs) >= 2 and not any(p in log.read_text() for log in logs for p in passwords)
    listening = [c.laddr for c in psutil.net_connections("inet") if c.status == "LISTEN"]
    assert {a.ip for a in listening if a.port in (server.port, server.pg_port)} == {"127.0.0.1"}


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_an_outage_loses_nothing_stalls_nothing_and_doubles_nothing(server, load, store, finished, how, monkeypatch):
    """The server freezes (requests hang and arrive late) or dies in the middle; trials go on being added meanwhile."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    loaded = load(name=how, seeds=[1, 2, 3])
    trials = finished(loaded)
    recorder = first_written(loaded, store, server, trials[0], finish=270)
    recorder.add(trials[1])  # its requests meet the outage half-way, wherever that is
    time.sleep(0.05)
    server.signal(signal.SIGSTOP if how == "frozen" else signal.SIGKILL)
    started = time.monotonic()
    for trial in trials[2:]:
        recorder.add(trial)
    assert time.monotonic() - started < 30, "no request that the outage holds is waited for"
    time.sleep(8)
    assert recorder._waiting, "they are kept"
    back = threading.Thread(target=bring_back, args=(server, how))
    back.start()
    recorder.finish()
    recorder.close(trials, failed=0)
    assert not recorder.unwritten
    back.join()
    check_complete(server, how, 6, 2)


def test_stop_leaves_nothing_behind(server):
    server.control("start")
    pids = server.processes()
    assert len(pids) > 1
    server.control("stop")
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    listening = {c.laddr.port for c in psutil.net_connections("inet") if c.status == "LISTEN"}
    assert not listening & {server.port, server.pg_port}
    assert server.run("status").returncode == 3 and server.run("stop").returncode == 0


def bring_back(server, how):
    time.sleep(1)
    if how == "frozen":
        server.signal(signal.SIGCONT)
    else:
        server.control("start")


def wait_for(done, seconds=120):
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)
