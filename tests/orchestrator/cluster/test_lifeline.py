"""A lost process is noticed, a busy or stopped one is not taken for lost: servers of our own, no Ray."""

import os
import signal
import subprocess
import sys
import time

import pytest

from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.cluster.interrupts import Lifeline, Server

SERVE = (
    "import socket, time\n"
    "server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(64)\n"
    "print(server.getsockname()[1], flush=True)\n"
    "while True:\n    server.accept()"
)


@pytest.fixture
def served(monkeypatch):
    """A server in a process of its own, and what a lifeline to it says."""
    monkeypatch.setattr(interrupts, "CHECK_EVERY_S", 0.05)
    process, said = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True), []
    server = Server(name="its head (GCS)", host="127.0.0.1", port=int(process.stdout.readline()))
    line = Lifeline([server], said.append)
    yield process, said, server
    line.close()
    process.kill()
    process.communicate()


def test_a_server_that_is_killed_is_named_once(served):
    process, said, server = served
    time.sleep(0.5)
    assert said == []
    process.kill()
    deadline = time.monotonic() + 60
    while not said and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    assert said == [f"the Ray cluster is lost: its head (GCS) at 127.0.0.1:{server.port} is gone"]


def test_a_server_that_is_stopped_is_not_lost(served):
    process, said, _ = served
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.0)
    assert said == []
