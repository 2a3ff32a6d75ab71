"""A program in its own process: started, asked within a time, and ended; what it prints never reaches the terminal.

The process is a new Python, never a copy of this one, which may have threads. The kernel ends it with this process.
"""

from __future__ import annotations

import copy
import itertools
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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

import smoothsweep
from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation.sandbox import Limits, can_isolate, device_paths, readable_paths, usual_limits
from smoothsweep.core.isolation.worker import WireError, numerics_here, receive, send

MOST_ANSWER = 2**30  # bytes of one answer: a million classes for 256 images
KEPT_OUTPUT = 2000  # characters of what a process printed last, for the sentence that says why it ended
_ROOT = Path(smoothsweep.__file__).resolve().parents[1]
_START = (  # dill, which torch looks for, would open a device for writing
    "import sys, json; orders = json.loads(sys.argv[1]); sys.path[:] = orders['path']; sys.modules['dill'] = None; "
    "from smoothsweep.core.isolation.sandbox import give_up_files; give_up_files(orders); "
    "from smoothsweep.core.isolation.worker import main; main(orders)"
)
_PASSED_ON = (
    *("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH_", "PYTORCH_"),
    *("ATEN_", "LC_", "LANG", "LD_LIBRARY_PATH", "PATH"),
)
_GONE = (BrokenPipeError, ConnectionError, EOFError)

_starters: dict[int, ThreadPoolExecutor] = {}


class IsolatedProgram:
    """images float [n, 3, S, S] -> whatever the program answers, on the images' device.

    Its numbers are those of the same program in this process: threads, precision and strides are the same there. What
    it draws at random comes from a generator of its own, seeded with 0 when it is loaded. Second derivatives are not
    available.
    """

    def __init__(
        self,
        program: BinaryIO,
        *,
        loader: str,
        what: str,
        where: str,
        device: torch.device,
        settings: Mapping[str, Any] | None = None,
        preload: Sequence[str] = (),
        packages: Sequence[str] = (),
        most_answer: int = MOST_ANSWER,
        limits: Limits | None = None,
    ) -> None:
        """Start a process and have it load the program, an open file at its beginning. Raises InputError, one line.

        Args:
            loader: "module:function", a `core.isolation.worker.Loader`.
            what: The kind of program, for the sentence about one that is none.
            where: How an error begins.
            settings: What that function is told, plain values.
            preload: Modules to import before the process gives up system calls; the loader's own is among them.
            packages: Installed packages that the loader reads beside torch's.
            most_answer: Bytes of one answer.
        """
        self.layout, self.dtype = "nchw", "float32"
        self._where, self._device, self._most_answer = where, device, most_answer
        self._ids, self._forgotten, self._noted = itertools.count(), list[int](), False
        orders = {"loader": loader, "settings": dict(settings or {}), "device": str(device), "preload": list(preload)}
        orders |= {"readable": [str(path) for path in readable_paths(loader, packages)]}
        try:
            self.process = Isolated(program.fileno(), orders, where=where, limits=limits or usual_limits())
        except Failed as failed:
            raise InputError(f"{where}: expected {what}, got: {failed}") from None
        self._note_output()

    @property
    def facts(self) -> dict[str, Any]:
        """What the loader found out."""
        return self.process.facts

    def arranged(self, layout: str, dtype: str) -> IsolatedProgram:
        """The same program in the same process, shown images in another layout, as numbers of another type."""
        other = copy.copy(self)
        other.layout, other.dtype = layout, dtype
        return other

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError, one line, for whatever the program raises, and where its process ends."""
        if torch.is_grad_enabled() and images.requires_grad:
            return _Answer.apply(images, self)
        return self.answer(images, gradient=False)[0]

    def answer(self, images: Tensor, *, gradient: bool) -> tuple[Tensor, int, bool]:
        """The answer, the number by which its gradient is asked for, and whether one leads back."""
        number = next(self._ids)
        grad_mode = gradient or torch.is_grad_enabled()
        shown = [self.layout, self.dtype]
        request = {"do": "answer", "id": number, "gradient": gradient, "grad_mode": grad_mode, "shown": shown}
        header, answer = self._ask(request, images, most_bytes=self._most_answer, shape=list(images.shape))
        if answer is None:
            raise InputError(f"{self._where}: expected an answer, got none")
        return answer.to(images.device), number, header.get("leads_back") is True

    def back(self, number: int, gradient: Tensor, images: Tensor, *, keep: bool) -> Tensor | None:
        """The gradient with regard to the images, by that of the answer. keep: it may be asked for again."""
        request = {"do": "back", "id": number, "keep": keep}
        _, found = self._ask(request, gradient, most_bytes=images.nbytes, shape=list(images.shape))
        if found is not None and (found.shape != images.shape or found.dtype != images.dtype):
            raise InputError(
                f"{self._where}: expected a gradient of shape {list(images.shape)}, got {list(found.shape)}"
            )
        return None if found is None else found.to(images.device)

    def forget(self, number: int) -> None:
        """An answer whose gradient is not asked for any more."""
        self._forgotten.append(number)

    def _ask(
        self, request: dict[str, Any], tensor: Tensor, *, most_bytes: int, shape: list[int]
    ) -> tuple[dict[str, Any], Tensor | None]:
        forget = self._forgotten[:1000]
        del self._forgotten[: len(forget)]
        request |= {"numerics": numerics_here(self._device), "forget": forget}
        try:
            return self.process.ask(request, tensor, most_bytes=most_bytes)
        except Failed as failed:
            if failed.memory == "device":
                raise torch.OutOfMemoryError(str(failed)) from None
            raise InputError(f"{self._where}: expected answers to images {shape}, got: {failed}") from None
        finally:
            self._note_output()

    def _note_output(self) -> None:
        if self.process.printed and not self._noted:
            self._noted = True
            screen.err(f"{self._where}: the program prints text, which is not shown")


class _Answer(torch.autograd.Function):
    """An answer from the other process; its gradient is asked for there."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, program: IsolatedProgram) -> Tensor:
        answer, number, leads_back = program.answer(images, gradient=True)
        ctx.save_for_backward(images)
        ctx.program, ctx.handle = program, _Handle(program, number)
        if not leads_back:
            ctx.mark_non_differentiable(answer)
        return answer

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        [images] = ctx.saved_tensors  # torch raises its own error where the graph was freed
        internals: Any = torch._C  # no stubs of its own
        keep = internals._autograd._get_current_graph_task_keep_graph()
        return ctx.program.back(ctx.handle.number, gradient, images, keep=keep), None


class _Handle:
    """Lives as long as a caller could ask for the gradient of an answer."""

    def __init__(self, program: IsolatedProgram, number: int) -> None:
        self.number, self._program = number, program

    def __del__(self) -> None:
        self._program.forget(self.number)


class Isolated:
    """One process and what it is asked. Not for use after an InputError that says that it ended."""

    def __init__(self, program: int, orders: dict[str, Any], *, where: str, limits: Limits) -> None:
        """Start it and have it load `program`, an open file. where: how an error begins.

        Raises InputError, one line, where it takes too long or too much, or ends; Failed for what the loader raises.
        """
        self._where, self._limits, self._lock = where, limits, threading.Lock()
        self._output, self.printed, self._why_gone = "", 0, ""
        ours, theirs = socket.socketpair()
        readable, writable = os.pipe()
        self._peer, self._pipe = ours, readable
        orders |= {
            "path": [str(_ROOT), *(place for place in sys.path if os.path.isabs(place) and place != str(_ROOT))],
            "parent": os.getpid(),
            "socket": theirs.fileno(),
            "program": program,
            "threads": torch.get_num_threads(),
            "memory": limits.memory,
            "isolated": can_isolate(),
            "devices": [str(path) for path in device_paths(orders["device"])],
            "attempt": str(Path(tempfile.gettempdir()) / f".smoothsweep-{os.getpid()}-must-not-appear"),
        }
        try:
            self._process = _starter().submit(_started, orders, (theirs.fileno(), program), writable).result()
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

    def _send(self, header: dict[str, Any], tensor: Tensor | None) -> None:
        seconds = self._limits.seconds
        try:
            self._peer.settimeout(seconds)
            send(self._peer, header, tensor)
        except TimeoutError:
            raise self._stopped(f"expected a program that takes images within {seconds:g} s, got none") from None
        except OSError:
            raise self._stopped(self._how_it_ended()) from None

    def _reply(self, seconds: float, what: str, *, most_bytes: int = 0) -> tuple[dict[str, Any], Tensor | None]:
        deadline = time.monotonic() + seconds
        try:
            self._wait_until_it_speaks(deadline)
            self._peer.settimeout(max(1.0, deadline - time.monotonic()))
            header, tensor = receive(self._peer, most_bytes=most_bytes)
        except TimeoutError:
            raise self._stopped(
                f"expected a program {what} within {seconds:g} s, got one that takes longer; "
                "SMOOTHSWEEP_PROGRAM_SECONDS sets another time"
            ) from None
        except _GONE:
            raise self._stopped(self._how_it_ended()) from None
        except WireError as error:
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
        before = -1
        while before < self.printed:
            before = self.printed
            self._read_output()
        code = self._process.poll()
        how = "whose process ended"
        if code is not None and code < 0:
            how = f"whose process was ended by {_signal_name(-code)}"
        last = next((line for line in reversed(self._output.splitlines()) if line.strip()), "")
        last_words = f", after {' '.join(last.split())[:200]!r}" if last else ""
        memory = f"{self._limits.memory / 2**30:.3g} GiB of memory"
        return f"expected a program that answers within {memory}, got one {how}{last_words}"

    def _stopped(self, why: str) -> InputError:
        self._why_gone = f"{self._where}: {why}"
        self._end()
        return InputError(self._why_gone)


class Failed(Exception):
    """The program raised an error, which the message names; the process lives on. memory: whose was too small."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.memory = header.get("memory")
        super().__init__(str(header["error"])[:300])


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
    by_names = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}  # of every torch.load
    return {**passed_on, **nowhere, **by_names, "USER": "nobody", "PYTHONWARNINGS": "ignore"}


def _ended(process: subprocess.Popen[bytes], peer: socket.socket, pipe: int) -> None:
    peer.close()
    process.kill()
    process.wait()
    os.close(pipe)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
