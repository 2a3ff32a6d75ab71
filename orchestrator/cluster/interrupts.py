"""Ctrl-C, SIGTERM, a closed terminal, a lost cluster: once is an orderly end, twice is at once. None is a traceback.

Signals are counted below Python (a byte in a pipe, which a thread reads), so that neither native code that runs on, nor
a library that takes a signal over or swallows our exception, changes how the process ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Collection, Generator
from pathlib import Path
from types import FrameType

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
        os.write(2, f"smoothsweep: {how}; {RESUME_HINT}\n".encode())
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
