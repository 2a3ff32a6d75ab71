"""A program in its own process: started, asked within a time, and ended; what it prints never reaches the terminal.

The process is a new Python, never a copy of this one, which may have threads. The kernel ends it with this process.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation import wire
from smoothsweep.core.isolation.limits import Limits, code_paths, device_paths, readable_paths

KEPT_OUTPUT = 2000  # characters of what a process printed last, for the sentence that says why it ended
_ROOT = Path(smoothsweep.__file__).resolve().parents[1]
_START = (  # dill, which torch looks for, would open a device for writing
    "import sys, json; orders = json.loads(sys.argv[1]); sys.path[:] = orders['path']; sys.modules['dill'] = None; "
    "from smoothsweep.core.isolation.worker import main; main(orders)"
)
_PASSED_ON = (
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "CUDA_",
    "CUBLAS_",
    "CUDNN_",
    "NVIDIA_",
    "TORCH_",
    "PYTORCH_",
    "ATEN_",
    "LC_",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
)
_GONE = (BrokenPipeError, ConnectionError, EOFError)

_starters: dict[int, ThreadPoolExecutor] = {}


class Isolated:
    """One process and what it is asked. Not for use after an InputError that says that it ended."""

    def __init__(
        self,
        program: BinaryIO,
        *,
        loader: str,
        settings: dict[str, Any],
        device: torch.device,
        where: str,
        limits: Limits,
        isolated: bool,
        preload: tuple[str, ...] = (),
        packages: tuple[str, ...] = (),
    ) -> None:
        """Start it and have it load `program`, a file at its beginning.

        Args:
            loader: "module:function", a `core.isolation.serving.Loader`.
            settings: What that function is told, plain values.
            where: How an error begins.
            isolated: Whether it gives up files, sockets and processes (where the kernel cannot, the caller has asked
                for consent).
            preload: Modules to import before that.
            packages: Installed packages that the loader reads beside torch's.

        Raises InputError, one line, for what is no such program, takes too long or too much, or ends its process.
        """
        self._where, self._limits, self._lock = where, limits, threading.Lock()
        self._output, self.printed, self._why_gone = "", 0, ""
        ours, theirs = socket.socketpair()
        readable, writable = os.pipe()
        self._peer, self._pipe = ours, readable
        orders = {
            "path": _search_path(),
            "parent": os.getpid(),
            "socket": theirs.fileno(),
            "program": program.fileno(),
            "loader": loader,
            "settings": settings,
            "device": str(device),
            "threads": torch.get_num_threads(),
            "memory": limits.memory,
            "isolated": isolated,
            "preload": list(preload),
            "readable": [str(path) for path in (*readable_paths(packages), *code_paths(loader))],
            "devices": [str(path) for path in device_paths(str(device))],
            "attempt": str(Path(tempfile.gettempdir()) / f".smoothsweep-{os.getpid()}-must-not-appear"),
        }
        try:
            self._process = _starter().submit(_started, orders, (theirs.fileno(), program.fileno()), writable).result()
        finally:
            theirs.close()
            os.close(writable)
        os.set_blocking(readable, False)
        self._end = weakref.finalize(self, _ended, self._process, ours, readable)
        self._reply(limits.seconds, "to start")
        self._output, self.printed = "", 0
        self.facts: dict[str, Any] = self._reply(limits.seconds, "to load")[0]["facts"]

    def ask(
        self, header: dict[str, Any], tensor: Tensor | None, *, most_bytes: int
    ) -> tuple[dict[str, Any], Tensor | None]:
        """Send a request and wait for its answer. Raises InputError, one line; torch.OutOfMemoryError for the device's.

        most_bytes: of the tensor that comes back.
        """
        with self._lock:
            if self._why_gone:
                raise InputError(self._why_gone)
            try:
                self._send(header, tensor)
                return self._reply(self._limits.seconds, "to answer", most_bytes=most_bytes)
            except (Failed, InputError):
                raise
            except BaseException:  # Ctrl-C, say: what is still to come would be taken for the next answer
                self._stopped("expected answers, got an interruption before the last one had come")
                raise

    def close(self) -> None:
        """End the process."""
        self._why_gone = self._why_gone or f"{self._where}: expected a program, got one that was closed"
        self._end()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def _send(self, header: dict[str, Any], tensor: Tensor | None) -> None:
        seconds = self._limits.seconds
        try:
            self._peer.settimeout(seconds)
            wire.send(self._peer, header, tensor)
        except TimeoutError:
            raise self._stopped(f"expected a program that takes images within {seconds:g} s, got none") from None
        except OSError:
            raise self._stopped(self._how_it_ended()) from None

    def _reply(self, seconds: float, what: str, *, most_bytes: int = 0) -> tuple[dict[str, Any], Tensor | None]:
        deadline = time.monotonic() + seconds
        try:
            self._wait_until_it_speaks(deadline)
            self._peer.settimeout(max(1.0, deadline - time.monotonic()))
            header, tensor = wire.receive(self._peer, most_bytes=most_bytes)
        except TimeoutError:
            raise self._stopped(
                f"expected a program {what} within {seconds:g} s, got one that takes longer; "
                "SMOOTHSWEEP_PROGRAM_SECONDS sets another time"
            ) from None
        except _GONE:
            raise self._stopped(self._how_it_ended()) from None
        except wire.WireError as error:
            raise self._stopped(f"expected an answer, got {error}") from None
        if "error" in header:
            raise Failed(header)
        return header, tensor

    def _wait_until_it_speaks(self, deadline: float) -> None:
        """Wait for the first byte of an answer, and read meanwhile what is printed, so that printing never blocks."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._peer, selectors.EVENT_READ)
            selector.register(self._pipe, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(max(0.0, deadline - time.monotonic()))}
                if self._pipe in ready and not self._read_output():
                    selector.unregister(self._pipe)
                if self._peer in ready:
                    return
                if time.monotonic() >= deadline:
                    raise TimeoutError

    def _read_output(self) -> bool:
        """Take in what was printed. False at its end."""
        try:
            piece = os.read(self._pipe, 2**16)
        except BlockingIOError:
            return True
        self.printed += len(piece)
        self._output = (self._output + piece.decode("utf-8", "replace"))[-KEPT_OUTPUT:]
        return bool(piece)

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        while self._pipe_has_more():
            pass
        code = self._process.poll()
        how = (
            "whose process ended" if code is None or code >= 0 else f"whose process was ended by {_signal_name(-code)}"
        )
        last = next((line for line in reversed(self._output.splitlines()) if line.strip()), "")
        last_words = f", after {' '.join(last.split())[:200]!r}" if last else ""
        memory = f"{self._limits.memory / 2**30:.3g} GiB of memory"
        return f"expected a program that answers within {memory}, got one {how}{last_words}"

    def _pipe_has_more(self) -> bool:
        before = self.printed
        return self._read_output() and self.printed > before

    def _stopped(self, why: str) -> InputError:
        self._why_gone = f"{self._where}: {why}"
        self._end()
        return InputError(self._why_gone)


class Failed(Exception):
    """The program raised an error; the process lives on. `header`: the worker's words, unsanitised."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.last, self.first = str(header["error"]), str(header.get("first", header["error"]))
        self.memory = header.get("memory")
        super().__init__(self.last)


@contextmanager
def in_memory() -> Generator[BinaryIO]:
    """A file without a name, to be written and then given to a process."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("program", os.MFD_CLOEXEC), "w+b") as file:
            yield file
    else:
        with tempfile.TemporaryFile() as file:
            yield file


def _starter() -> ThreadPoolExecutor:
    """The thread that starts processes here: the kernel ends a process with the *thread* that started it."""
    process_id = os.getpid()
    if process_id not in _starters:
        _starters.clear()
        _starters[process_id] = ThreadPoolExecutor(1)
    return _starters[process_id]


def _started(orders: dict[str, Any], passed: tuple[int, ...], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", _START, json.dumps(orders)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=passed,
        cwd="/",
        env=_environment(),
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    """What computing needs of this environment: no token, no password, no home."""
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    nowhere = {"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": "/"}  # "/" need not be made
    return {**passed_on, **nowhere, "USER": "nobody", "PYTHONWARNINGS": "ignore"}


def _search_path() -> list[str]:
    return [str(_ROOT), *(place for place in sys.path if os.path.isabs(place) and place != str(_ROOT))]


def _ended(process: subprocess.Popen[bytes], peer: socket.socket, pipe: int) -> None:
    peer.close()
    process.kill()
    process.wait()
    os.close(pipe)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
