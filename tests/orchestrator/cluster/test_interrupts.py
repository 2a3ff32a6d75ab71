"""How a process of ours ends when it is told to: real signals, sent to small processes; no Ray."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from smoothsweep.orchestrator.cluster import interrupts

GO_ON = "the same command goes on from here"
INTERRUPTED, FAILED = 130, 1
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def process(body: str, *, before: str = "") -> subprocess.Popen:
    """Python that behaves as `smoothsweep` does, with `body` for its work; it says 'ready' when the work begins."""
    program = f"""
import os, signal, subprocess, sys, threading, time
from pathlib import Path
{before}
from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator import cli

def work(arguments):
{textwrap.indent(textwrap.dedent(body), "    ")}

cli._open = work
sys.argv[1:] = []
sys.exit(cli.main())
"""
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the suite itself may run under nohup
    )
    assert started.stdout.readline() == "ready\n"
    return started


READY = 'print("ready", flush=True)'
WORK = f"try:\n    {READY}\n    time.sleep(60)\n"


def told(started: subprocess.Popen, *numbers: signal.Signals) -> tuple[int, list[str]]:
    for number in numbers:
        started.send_signal(number)
        time.sleep(0.3)
    _, said = started.communicate(timeout=100)
    return started.returncode, said.splitlines()


SAVED = f"{WORK}finally:\n    print('state saved', file=sys.stderr)"
CAUGHT = f"{WORK}except KeyboardInterrupt:\n    "
HOOK = f"""
def hook():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
os.register_at_fork(before=hook)
{READY}
if os.fork() == 0:
    os._exit(0)
print("goes on", file=sys.stderr)
interrupts.check()
"""
# What waits for a cluster may swallow the error that ends it: the run ends all the same.
LOST = f"""
lost = ('the Ray cluster is lost: its head is gone',)
threading.Timer(0.2, interrupts.end_for_lost_cluster, lost).start()
{WORK}except Exception:
    pass
"""
NOISY = f"""
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
def native():
    child.wait()
    os.write(2, b"a library misses what was ended\\n")
threading.Thread(target=native, daemon=True).start()
{READY}
time.sleep(60)
"""
ENDS = {  # body, signals, exit code, lines
    "an orderly end by ctrl-C": (SAVED, [INT], INTERRUPTED, ["state saved", "interrupted"]),
    "by SIGTERM": (SAVED, [TERM], INTERRUPTED, ["state saved", "interrupted"]),
    "by a closed terminal": (SAVED, [HUP], INTERRUPTED, ["state saved", "interrupted"]),
    "told as a failure by a library": (f"{CAUGHT}return 1", [INT], INTERRUPTED, ["interrupted"]),
    "an error of the system": (f"{CAUGHT}raise OSError(5, 'gone')", [INT], INTERRUPTED, ["interrupted"]),
    "Ray's own answer to SIGTERM": (f"{CAUGHT}sys.exit(15)", [INT], INTERRUPTED, ["interrupted"]),
    "a library's error": (f"{CAUGHT}raise RuntimeError('a closed Ray')", [INT], INTERRUPTED, ["interrupted"]),
    "in a hook at a fork, where Python goes on": (HOOK, [], INTERRUPTED, ["goes on", "interrupted"]),
    "swallowed, and raised again where the driver looks": (
        f"{WORK}except BaseException:\n    pass\ninterrupts.check()\ntime.sleep(60)",
        [INT],
        INTERRUPTED,
        ["interrupted"],
    ),
    "twice is at once, if Python never gets a turn": (
        f"{WORK}finally:\n    while True:\n        pass",
        [INT, INT],
        INTERRUPTED,
        ["ended at once"],
    ),
    "an end that takes too long is made at once": (
        f"interrupts.PATIENCE_S = 0.5\n{WORK}finally:\n    time.sleep(200)",
        [INT],
        INTERRUPTED,
        ["ended at once"],
    ),
    "nothing is said after it": (NOISY, [TERM], INTERRUPTED, ["interrupted"]),
    "a lost cluster is a failure": (LOST, [], FAILED, ["the Ray cluster is lost: its head is gone"]),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_is_one_line_and_no_traceback(case):
    body, signals, code, lines = ENDS[case]
    *before, last = lines
    assert told(process(body), *signals) == (code, [*before, f"smoothsweep: {last}; {GO_ON}"])


def test_what_was_started_is_ended_too_and_does_not_hear_the_terminal_close_and_folders_go(tmp_path):
    (tmp_path / "token").write_text("secret")
    body = f"""
    interrupts.remove_at_the_end(Path({str(tmp_path)!r}))
    with interrupts.sheltered():
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
    os.kill(child.pid, signal.SIGHUP)
    time.sleep(0.5)
    print(child.pid, child.poll(), file=sys.stderr, flush=True)
    {READY}
    time.sleep(60)
    """
    code, said = told(process(body), TERM)
    pid, alive = said[0].split()
    assert (code, alive) == (INTERRUPTED, "None") and not tmp_path.exists()
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


SERVE = (
    "import socket, time\n"
    "server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(64)\n"
    "print(server.getsockname()[1], flush=True)\n"
    "while True:\n    server.accept()"
)


@pytest.fixture
def served():
    """A server in a process of its own, and what a lifeline to it says."""
    process, said = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True), []
    port = int(process.stdout.readline())
    line = interrupts.Lifeline({"its head (GCS)": ("127.0.0.1", port)}, said.append)
    yield process, said, port
    line.close()
    process.kill()
    process.communicate()


def test_a_server_that_is_killed_is_named_once_and_one_that_is_stopped_is_not_lost(served):
    process, said, port = served
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(interrupts.CHECK_EVERY_S * (interrupts.MISSES + 1))
    assert said == []
    process.kill()
    deadline = time.monotonic() + 60
    while not said and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(interrupts.CHECK_EVERY_S)
    assert said == [f"the Ray cluster is lost: its head (GCS) at 127.0.0.1:{port} is gone"]
