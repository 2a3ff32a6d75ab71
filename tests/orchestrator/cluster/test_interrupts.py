"""How a process of ours ends when it is told to: real signals, sent to small processes; no Ray."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

GO_ON = "the same command goes on from here"
INTERRUPTED, FAILED = 130, 1


def process(body: str, tmp_path, *, before: str = "") -> subprocess.Popen:
    """Python that behaves as `smoothsweep` does, with `body` for its work; it says 'ready' when the work begins."""
    program = f"""
import os, signal, sys, threading, time
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


def told(started: subprocess.Popen, *numbers: signal.Signals) -> tuple[int, str]:
    for number in numbers:
        started.send_signal(number)
        time.sleep(0.3)
    _, said = started.communicate(timeout=30)
    return started.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_is_an_orderly_end(tmp_path, number):
    body = f"try:\n    {READY}\n    time.sleep(60)\nfinally:\n    print('state saved', file=sys.stderr)"
    code, said = told(process(body, tmp_path), number)
    assert (code, said.splitlines()) == (INTERRUPTED, ["state saved", f"smoothsweep: interrupted; {GO_ON}"])


@pytest.mark.parametrize(
    "ending",
    [
        "return 1",  # a library's error was told as a failure
        "raise OSError(5, 'the cluster is not there any more')",
        "sys.exit(15)",  # Ray's own answer to SIGTERM
        "raise RuntimeError('Tune met a closed Ray')",
    ],
)
def test_whatever_the_interrupt_turns_into_the_end_is_the_same(tmp_path, ending):
    body = f"try:\n    {READY}\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    {ending}"
    code, said = told(process(body, tmp_path), signal.SIGINT)
    assert code == INTERRUPTED and "Traceback" not in said and said.endswith(f"interrupted; {GO_ON}\n")


def test_a_signal_within_a_hook_at_a_fork_is_no_traceback(tmp_path):
    """Python cannot raise there, prints what it swallows, and goes on."""
    body = f"""
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
    code, said = told(process(body, tmp_path))
    assert (code, said.splitlines()) == (INTERRUPTED, ["goes on", f"smoothsweep: interrupted; {GO_ON}"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_end_changes_nothing(tmp_path, number):
    """While the interpreter is taken down: it used to die of the signal, with a code that says nothing."""
    body = f"""
    class Slow:
        def __del__(self, sleep=time.sleep):
            sleep(1.0)
    sys.taken_down_slowly = Slow()  # after Python has put the signals back
    {READY}
    print("the result", file=sys.stderr)
    return 0
    """
    started = process(body, tmp_path)
    assert started.stderr.readline() == "the result\n"
    time.sleep(0.3)
    assert told(started, number) == (0, "")


def test_an_interrupt_that_was_swallowed_is_raised_again_where_the_driver_looks(tmp_path):
    body = f"try:\n    {READY}\n    time.sleep(60)\nexcept BaseException:\n    pass\ninterrupts.check()\ntime.sleep(60)"
    code, said = told(process(body, tmp_path), signal.SIGINT)
    assert code == INTERRUPTED and "Traceback" not in said


def test_twice_is_at_once_even_if_python_never_gets_a_turn(tmp_path):
    """As in native code that runs on: here the main thread blocks the signals' Python part by an endless handler."""
    body = f"try:\n    {READY}\n    time.sleep(60)\nfinally:\n    while True:\n        pass"
    code, said = told(process(body, tmp_path), signal.SIGINT, signal.SIGINT)
    assert code == INTERRUPTED and said == f"smoothsweep: ended at once; {GO_ON}\n"


def test_an_end_that_takes_too_long_is_made_at_once(tmp_path):
    body = f"interrupts.PATIENCE_S = 0.5\ntry:\n    {READY}\n    time.sleep(200)\nfinally:\n    time.sleep(200)"
    started = time.monotonic()
    code, said = told(process(body, tmp_path), signal.SIGINT)
    assert code == INTERRUPTED and "ended at once" in said and time.monotonic() - started < 150


def test_under_nohup_a_closed_terminal_is_nothing(tmp_path):
    body = READY + "\ntime.sleep(2)\nreturn 0"
    code, said = told(process(body, tmp_path, before="signal.signal(signal.SIGHUP, signal.SIG_IGN)"), signal.SIGHUP)
    assert (code, said) == (0, "")


def test_what_was_started_is_ended_too_and_does_not_hear_the_terminal_close(tmp_path):
    body = (
        "import subprocess\n"
        "with interrupts.sheltered():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "os.kill(child.pid, signal.SIGHUP)\n"
        "time.sleep(0.5)\n"
        "print(child.pid, child.poll(), file=sys.stderr, flush=True)\n" + READY + "\ntime.sleep(60)"
    )
    code, said = told(process(body, tmp_path), signal.SIGTERM)
    pid, alive = said.splitlines()[0].split()
    assert (code, alive) == (INTERRUPTED, "None")
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


def test_a_lost_cluster_is_one_line_and_a_failure(tmp_path):
    body = (
        "lost = ('the Ray cluster is lost: its head is gone',)\n"
        "threading.Timer(0.2, interrupts.end_for_lost_cluster, lost).start()\n"
        f"try:\n    {READY}\n    time.sleep(60)\nexcept Exception:\n    pass"
    )
    code, said = told(process(body, tmp_path))
    assert (code, said) == (FAILED, f"smoothsweep: the Ray cluster is lost: its head is gone; {GO_ON}\n")


def test_a_folder_that_is_not_to_outlive_the_process_is_gone(tmp_path):
    (tmp_path / "token").write_text("secret")
    body = f"from pathlib import Path\ninterrupts.remove_at_the_end(Path({str(tmp_path)!r}))\n{READY}\ntime.sleep(60)"
    assert told(process(body, tmp_path), signal.SIGINT)[0] == INTERRUPTED
    assert not tmp_path.exists()
