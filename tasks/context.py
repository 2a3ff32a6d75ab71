"""What every task receives beside its configuration, and the shape of a task."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import plain_content, write_file

Config = Mapping[str, Any]
Inputs = Mapping[str, Path]
Metrics = dict[str, float | None]
T = TypeVar("T")

PROGRESS_FILE = "progress.json"


_leaving: ContextVar[Callable[[], bool] | None] = ContextVar("leaving", default=None)


class MachineLeaving(Exception):
    """The machine is about to be taken away: what was done is kept, and the rest is to be done elsewhere."""


@contextmanager
def context_value(variable: ContextVar[T], value: T) -> Generator[None]:
    """Within it the variable has this value."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def ask_machine_leaving(ask: Callable[[], bool]) -> AbstractContextManager[None]:
    """Within it tasks ask `ask()` whether their machine leaves."""
    return context_value(_leaving, ask)


class SharedFolders(Protocol):
    """What workers of one training need where their machines see no common file system. Travels to every worker."""

    def bring(self, artifact: Path) -> Path:
        """The folder of an input, complete, on this machine; `artifact` is its path where the task was started."""

    def joined(self, work: Path) -> AbstractContextManager[Path]:
        """A folder on this machine, whose files join those of `work` while it is open and when it is left."""

    def pull(self, work: Path) -> None:
        """Bring into `work`, on its own machine, what workers elsewhere left in joined folders."""

    def checkpoints(self, work: Path) -> tuple[Any, str]:
        """(pyarrow file system, path in it) where Ray Train keeps the checkpoints of this work."""


@dataclass(kw_only=True)
class TaskContext:
    """Where a task may keep things between attempts, what it computes on, and how it says how far it is.

    Attributes:
        work: Directory that outlives a killed worker (checkpoints, finished classes); removed once the stage is done.
        device: Torch device string.
        shared: How workers on other machines reach `work` and the inputs; None where paths mean the same everywhere.
    """

    work: Path
    device: str = "cpu"
    shared: SharedFolders | None = None
    _reported_at: float = field(default=0.0, repr=False)

    def machine_leaves(self) -> bool:
        """Whether the machine is about to be taken away: then a checkpoint is due, whatever its turn."""
        ask = _leaving.get()
        return ask is not None and ask()

    def leave_with_the_machine(self) -> None:
        """Call where all that was done is kept: raises MachineLeaving if it is time to go."""
        if self.machine_leaves():
            raise MachineLeaving

    def progress(self, fraction: float, text: str = "") -> None:
        """Leave a mark at most once a second: fraction in [0, 1] and a few words. A full disk stops no work."""
        now = time.monotonic()
        if now - self._reported_at < 1.0 and fraction < 1.0:
            return
        self._reported_at = now
        write_progress(self.work, fraction, text)


def write_progress(work: Path, fraction: float, text: str) -> None:
    """Replace `work/progress.json`; readers never see half a file."""
    content = mark_content(fraction, text)
    with suppress(OSError):  # a mark is a courtesy: the artifact itself will report a full disk
        write_file(work / PROGRESS_FILE, content, flush=False)


def mark_content(fraction: float, text: str) -> str:
    """A mark as JSON: how far, a few words, who leaves it and when."""
    mark = {"fraction": fraction, "text": text, "host": socket.gethostname(), "pid": os.getpid(), "time": time.time()}
    return json.dumps(mark)


def read_progress(work: Path) -> dict[str, Any] | None:
    """The last mark left in `work`, or None."""
    try:
        return mark_from(plain_content(work / PROGRESS_FILE))
    except OSError:
        return None


def mark_from(content: bytes) -> dict[str, Any] | None:
    """A mark from its file; None if that is damaged: marks are not flushed."""
    try:
        mark = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(mark, dict) or not isinstance(mark.get("fraction"), int | float):
        return None
    return mark if isinstance(mark.get("text"), str) else None


@contextmanager
def joined_context(
    data: Path, work: Path, *, device: str, shared: SharedFolders | None
) -> Generator[tuple[Path, TaskContext]]:
    """What one worker of a group needs: the input on its own machine, and a context whose files reach the others."""
    if shared is None:
        yield data, TaskContext(work=work, device=device)
        return
    with shared.joined(work) as folder:
        yield shared.bring(data), TaskContext(work=folder, device=device, shared=shared)


PROMISED_GPUS = "SMOOTHSWEEP_CLUSTER_GPUS"  # that the cluster can grow to
PROMISED_PER_NODE = "SMOOTHSWEEP_NODE_GPUS"  # of the largest machine that may come


def promised_gpus(variable: str = PROMISED_GPUS) -> float | None:
    """The number in the environment variable, None where it is not set. Raises InputError for what is no number."""
    promised = os.environ.get(variable)
    if promised is None:
        return None
    try:
        number = float(promised)
    except ValueError:
        number = -1.0
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{variable}: expected a number of GPUs, got {promised!r}")
    return number
