"""Ctrl-C, SIGTERM, a closed terminal, a lost cluster: once is an orderly end, twice is at once. None is a traceback.

Signals are counted below Python (a byte in a pipe, which a thread reads), so that neither native code that runs on, nor
a library that takes a signal over or swallows our exception, changes how the process ends.

Whether Ray's own processes still accept connections is watched by TCP: Ray waits a minute for a lost GCS and then ends
the process; a lost raylet it does not notice at all where the driver only asks actors. A busy or stopped process still
accepts connections (the kernel does), so a busy machine is not taken for a lost one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from types import FrameType
from typing import Any

from smoothsweep.core.checks import present

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C; `ray job stop`, batch systems; a closed terminal
PATIENCE_S = 60.0  # of an orderly end, after which it is at once
RESUME_HINT = "the same command goes on from here"


class ClusterLost(KeyboardInterrupt):
    """Ray's own processes have gone. No mere Exception: nothing between may take it for a failure of its own."""


class _Interrupts:
    """Whether this process was told to end, and why. lost: what is gone, if it is the cluster that ends it."""

    def __init__(self) -> None:
        self.count = 0
        self.lost: str | None = None
        self.leaving = threading.Lock()
        self.folders: list[Path] = []
        self.raised = False
        self.said_by = sys.unraisablehook
        self._pipe: tuple[int, int] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Python's part, in the main thread: unwind, once."""
        if not self.raised:
            self.raised = True
            raise ClusterLost(self.lost) if self.lost else KeyboardInterrupt

    def unraised(self, lost: sys.UnraisableHookArgs) -> None:
        """Say nothing of our own exception where Python cannot raise it (a hook at a fork): `check` raises it again."""
        if not (self.raised and isinstance(lost.exc_value, KeyboardInterrupt)):
            self.said_by(lost)

    def watch(self) -> None:
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._count, args=(self._pipe[0],), name="interrupts", daemon=True).start()
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def _count(self, pipe: int) -> None:
        while True:
            for number in os.read(pipe, 64):
                self.count += number in SIGNALS
                if self.count > 1:
                    leave("ended at once")
                elif self.count == 1:
                    threading.Timer(PATIENCE_S, leave, ("ended at once",)).start()

    def lose(self, what: str) -> None:
        if self.lost is None and not self.count:
            self.lost = what
            signal.pthread_kill(present(threading.main_thread().ident, "ident"), signal.SIGINT)


_interrupts = _Interrupts()


def listen() -> None:
    """Take the signals over; again after other code did (Ray, when it starts). Only the main thread can.

    A SIGHUP that we were started to ignore (`nohup`) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    _interrupts.watch()
    if sys.unraisablehook != _interrupts.unraised:
        _interrupts.said_by, sys.unraisablehook = sys.unraisablehook, _interrupts.unraised
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupts)


def stop_listening() -> None:
    """All is done and said: the interpreter ends as it was going to, whatever tells it to end in that last moment."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def sheltered() -> Generator[None]:
    """Processes started within it do not hear SIGHUP: a closed terminal tells us, and we end them in order."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def remove_at_the_end(folder: Path) -> None:
    """Have `leave` remove a folder that does not outlive this process: it unwinds nothing."""
    _interrupts.folders.append(folder)


def end_for_lost_cluster(what: str) -> None:
    """End this process in order, from any thread, because its cluster has gone. what: in one line."""
    _interrupts.lose(what)


def end_requested() -> bool:
    """Whether this process was told to end, or has lost its cluster."""
    return bool(_interrupts.raised or _interrupts.count or _interrupts.lost)


def check() -> None:
    """Raise again what other code has swallowed."""
    if end_requested():
        raise ClusterLost(_interrupts.lost) if _interrupts.lost else KeyboardInterrupt


def leave_if_requested() -> None:
    """End the process here if it was told to end, however far the news has come."""
    error = sys.exc_info()[1]
    if end_requested() or (isinstance(error, SystemExit) and error.code == signal.SIGTERM):  # Ray's own answer to it
        leave("interrupted")


def leave(how: str) -> None:
    """End this process and all that it has started, at this instant: no thread or exit handler of a library can differ.

    What is in the store is whole at every instant, so nothing is lost but work since the last checkpoint.
    """
    _interrupts.leaving.acquire()  # for good: a second caller waits for the end
    how = _interrupts.lost or how
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # a closed terminal
            stream.flush()
    with contextlib.suppress(OSError):
        heard = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Ray's native code has much to say of what is killed now
        os.write(heard, f"smoothsweep: {how}; {RESUME_HINT}\n".encode())
    kill_descendants()
    for folder in _interrupts.folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(EXIT_FAILED if _interrupts.lost else EXIT_INTERRUPTED)


def kill_descendants(but: Collection[int] = ()) -> None:
    """Kill all that this process has started, but for these processes, and wait a little for their end."""
    import psutil

    with contextlib.suppress(psutil.Error):
        started = [process for process in psutil.Process().children(recursive=True) if process.pid not in but]
        for process in started:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(started, timeout=1.0)


CHECK_EVERY_S = 1.0
TCP_ANSWER_S = 3.0  # for a connection
MISSES = 3  # in a row: an interrupt of the whole process group must be heard first
LOSS_PATIENCE_S = 12.0  # of a caller who meets an error of Ray's, for the verdict


Servers = dict[str, tuple[str, int]]  # what a person calls a process that the driver cannot do without -> host, port


class Lifeline:
    """Watches servers until `close`; calls `lost(line)` once, from its own thread, when one has gone."""

    def __init__(self, servers: Servers, lost: Callable[[str], None] = end_for_lost_cluster) -> None:
        self._servers, self._lost, self._closed = servers, lost, threading.Event()
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        misses = dict.fromkeys(self._servers, 0)
        while not self._closed.wait(CHECK_EVERY_S):
            for name, (host, port) in self._servers.items():
                try:
                    socket.create_connection((host, port), timeout=TCP_ANSWER_S).close()
                    misses[name] = 0
                except OSError:
                    misses[name] += 1
                if misses[name] >= MISSES and not self._closed.is_set():
                    self._lost(f"the Ray cluster is lost: {name} at {host}:{port} is gone")
                    return


def lifeline_of_this_driver() -> Lifeline:
    """Watch the GCS of the cluster that Ray is connected to, and the raylet of this machine."""
    import ray

    _drop_obituaries()
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    servers: Servers = {"its head (GCS)": (host.strip("[]"), int(port))}
    node_id = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():
        if node["NodeID"] == node_id and node["Alive"]:
            servers["the raylet of this machine"] = (node["NodeManagerAddress"], node["NodeManagerPort"])
    return Lifeline(servers)


@contextlib.contextmanager
def explaining_rays_errors() -> Generator[None]:
    """Raise the loss of the cluster, where it follows an error of Ray in this block, instead of that error.

    Raises ClusterLost after any RayError: the driver cannot continue, but the same command resumes its work.
    """
    import ray.exceptions

    try:
        yield
    except ray.exceptions.RayError as error:
        deadline = time.monotonic() + LOSS_PATIENCE_S
        while time.monotonic() < deadline:
            check()
            time.sleep(0.1)
        reason = " ".join(str(error).split())[:200]
        end_for_lost_cluster(f"the Ray cluster does not answer: {type(error).__name__}: {reason}")
        check()
        raise


def _drop_obituaries() -> None:
    """Keep Ray from printing pages on a dead raylet, which one line of ours tells, and on workers that end with us."""
    from ray._private import worker as its_worker

    worker: Any = its_worker
    show = worker.print_to_stdstream
    if getattr(show, "drops_obituaries", False):
        return

    def show_others(data: dict[str, Any], *arguments: Any, **options: Any) -> None:
        if not (end_requested() or any("Raylet is terminated" in line for line in data.get("lines", []))):
            show(data, *arguments, **options)

    ours: Any = show_others
    ours.drops_obituaries = True
    worker.print_to_stdstream = ours
