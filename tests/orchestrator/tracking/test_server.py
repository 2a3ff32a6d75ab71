"""A real server on PostgreSQL, started by the project's script: recorded through, stopped, killed, brought back."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

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


def test_stop_leaves_nothing_behind(server):
    server.control("start")
    pids = server.processes()
    assert len(pids) > 1
    server.control("stop")
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    listening = {c.laddr.port for c in psutil.net_connections("inet") if c.status == "LISTEN"}
    assert not listening & {server.port, server.pg_port}
    assert server.run("status").returncode == 3 and server.run("stop").returncode == 0
