"""Whether a driver is at work on a sweep: by its process here, by the age of its state elsewhere."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from smoothsweep.orchestrator.planning.state import SweepState, other_driver, read_state, write_state
from smoothsweep.orchestrator.store.opening import open_store


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path))
    write_state(store, "s", SweepState(name="s", total_stages=1, done_stages=0, total_trials=1), {}, finished=False)
    return store


def change(store, **entries):
    state = json.loads(store.read_note("s", "state.json"))
    store.write_note("s", "state.json", json.dumps({**state, **entries}).encode())


def test_this_driver_is_no_other(store):
    assert other_driver(store, "s") is None and other_driver(store, "never ran") is None


def test_another_process_here_counts_if_it_is_a_driver(store):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*command, "orchestrator"]) as driver, subprocess.Popen(command) as stranger:
        change(store, pid=driver.pid)
        line = other_driver(store, "s")
        change(store, pid=stranger.pid)  # the number of a dead driver, used again
        assert not read_state(store, "s")["alive"]
        driver.kill()
        stranger.kill()
    assert line.startswith(f"another driver (process {driver.pid} on {socket.gethostname()}) is at work on s")
    change(store, pid=driver.pid)
    assert other_driver(store, "s") is None


@pytest.mark.parametrize(("ago", "alive"), [(10, True), (-10, True), (300, False), (-7200, False)])
def test_elsewhere_only_a_state_of_about_now_counts(store, ago, alive):
    """A state two hours ahead was written before a clock was set back: its driver may be long dead."""
    change(store, host="elsewhere", place="elsewhere-01234567", pid=os.getpid(), time=time.time() - ago)
    assert (other_driver(store, "s") is not None) == alive
    change(store, host=socket.gethostname(), place=f"{socket.gethostname()}-01234567")  # a container of our host name
    assert (other_driver(store, "s") is not None) == alive
