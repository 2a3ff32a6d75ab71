"""Ray tasks: what runs in Ray's workers, how long it may, how it leaves a machine, and how its end is said.

How long a task may take is what the sweep file says, else a default that no honest stage meets.

Machines may be about to be taken away: spot machines with notice, pods that are evicted, nodes that are drained. Ray
knows of them by `ray drain-node`, and by the SIGTERM of a `ray start --block`. It gives such a node no new work; what
runs there is ours to bring away in time.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ray
import ray.exceptions
from ray.exceptions import RayError, RayTaskError

from smoothsweep.core.errors import SweepStopped
from smoothsweep.core.files import write_file
from smoothsweep.core.same_code import only_this_code
from smoothsweep.core.text import duration
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.context import MachineLeaving, ask_machine_leaving


class Process(NamedTuple):
    """A worker's process. node: Ray's id of its machine; host: what a person calls that machine."""

    node: str
    host: str


@dataclass(frozen=True, kw_only=True)
class StartReporter:
    """What a task calls when it starts: 'I work there, and from now on (clock) my devices are held'."""

    scheduler: Any
    token: int

    def __call__(self, *, clock: bool = True) -> None:
        node = ray.get_runtime_context().get_node_id()
        self.scheduler.began.remote(self.token, Process(node, socket.gethostname()), clock)


FLOOR_S = 30 * 60.0
TIMES = 20  # what such a stage has taken: machines differ by less
UNKNOWN_S = 72 * 3600.0  # where nothing alike was measured on such a device


class Limit(NamedTuple):
    """How many seconds a task may take, and what is said of one that took longer."""

    seconds: float
    reason: str


class Limits:
    """The limits of every stage of a sweep. resources: its `resources` as a mapping."""

    def __init__(self, store: Store, resources: dict[str, Any]) -> None:
        self._history, self._resources = History(store), resources

    def of(self, stage: Stage, device: str) -> Limit:
        """The sweep file's time-out; without one, `TIMES` the longest that such a stage has taken on such a device
        ('cpu' or 'cuda'), half an hour at least.

        Reads manifests: not for the event loop.
        """
        kind = "training" if stage.task.trains else "attack" if stage.task.shard is not None else None
        setting = f"resources.{kind}_timeout_minutes"
        minutes = self._resources.get(f"{kind}_timeout_minutes")
        if minutes is not None:
            seconds = 60.0 * minutes
            return Limit(seconds, f"ran longer than {setting} allows ({duration(seconds)}), and was ended")
        known = self._history.devices(stage.name) == {device}
        expected = self._history.expected(stage) if known else None
        seconds = UNKNOWN_S if expected is None else max(FLOOR_S, TIMES * expected[2])
        hint = f"; {setting} sets a limit of its own" if kind else ""
        return Limit(seconds, f"ran for {duration(seconds)}, longer than any like it could, and was ended{hint}")


WORKER_RETRIES = 3  # for killed workers and lost nodes; an exception of the task itself is not retried


@ray.remote(max_retries=WORKER_RETRIES)
def execute_remotely(store: Store, stage: Stage, tell: StartReporter, code: str | None = None) -> None:
    with only_this_code(code):
        if not is_group(stage):
            with _at_work(stage, tell):
                return execute(store, stage)
        from smoothsweep.tasks.ray_train import announcing  # two seconds of imports that other stages do not need

        tell(clock=False)  # the workers' devices are still to come
        with announcing(tell):
            return execute(store, stage)


@ray.remote(max_retries=WORKER_RETRIES)
def execute_shard_remotely(
    store: Store, stage: Stage, classes: list[int], tell: StartReporter, code: str | None = None
) -> int:
    with only_this_code(code), _at_work(stage, tell):
        return execute_shard(store, stage, classes)


@contextlib.contextmanager
def _at_work(stage: Stage, tell: StartReporter) -> Generator[None]:
    """Load torch and the stage's code (minutes on a cold network disk, which are not the work's time), then report."""
    leaves = leaving_check(ray.get_runtime_context().get_node_id())
    if leaves():  # given to us before the news was everywhere
        raise MachineLeaving
    import torch  # noqa: F401

    stage.task.function()
    tell()
    with ask_machine_leaving(leaves):
        yield


def is_group(stage: Stage) -> bool:
    """Whether the stage is done by a group of Ray Train workers."""
    return stage.config.get("workers", 1) > 1


ASK_EVERY_S = 2.0
LEAVE_FILE = "SMOOTHSWEEP_LEAVE_FILE"  # a path: where the file exists, all of the job's nodes leave
LEFT = "left"  # beside it: they have


def draining_nodes() -> set[str]:
    """Ray's ids of the nodes that are being drained now."""
    from ray._private.state import state  # where Ray Train's own watcher asks

    return set(state.get_draining_nodes())


def limit_is_near() -> bool:
    """Whether the batch job that this process belongs to is about to reach its time limit."""
    path = os.environ.get(LEAVE_FILE)
    return path is not None and os.path.exists(path)


def report_all_left() -> None:
    """Tell the script of the batch job that nothing runs any more, so that it waits for the limit no longer."""
    write_file(Path(os.environ[LEAVE_FILE]).with_name(LEFT), "", flush=False)


def leaving_check(node: str) -> Callable[[], bool]:
    """Whether this node is being drained, or its batch job nears the time limit."""
    watch = DrainWatch()
    return lambda: node in watch.look() or limit_is_near()


class DrainWatch:
    """Which nodes have been drained while we looked, so that a loss on them counts as no failure."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._asked = -ASK_EVERY_S

    def look(self) -> set[str]:
        """Ask Ray, every few seconds at most. A node that is gone is not in its answer any more: we remember."""
        if time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            self._left |= draining_nodes()
        return self._left

    def explain(self, error: BaseException, processes: Iterable[Process]) -> bool:
        """Whether the task ended because its machine leaves: it says so itself, or was lost with a drained node."""
        if isinstance(error, MachineLeaving):
            return True
        lost = isinstance(error, RayError) and not isinstance(error, RayTaskError)
        return lost and any(process.node in self._left for process in processes)


OWN_WORDS = (  # errors whose message says it all
    "InputError",
    "InputChanged",
    "CodeChanged",
    "ArtifactDamaged",
    "TrainingDiverged",
    "AccuracyNotReached",
    "NotFinite",
    "TimeoutError",
)
OUT_OF_MEMORY = re.compile(r"out of memory|running low on memory|due to OOM|OutOfMemory", re.IGNORECASE)
LACK_OF_MEMORY = (
    "out of memory: Ray ended its worker on every attempt, because the machine's memory was nearly used up; run fewer "
    "tasks at once (a larger resources.cpus_per_task or gpus_per_task), or take a machine with more memory"
)


def _is_lack_of_memory(error: BaseException | None) -> bool:
    """Whether Ray ended the worker for lack of memory, by this error or by any error in its chain of causes."""
    for _ in range(10):
        if error is None:
            return False
        if isinstance(error, ray.exceptions.OutOfMemoryError):
            return True
        if isinstance(error, ray.exceptions.RayActorError) and OUT_OF_MEMORY.search(str(error)):
            return True
        cause = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else error.__cause__ or error.__context__
    return False


def one_line(error: BaseException) -> str:
    """The task's own error in one line, without Ray's wrapping and traceback."""
    cause = getattr(error, "cause", None) or error
    if _is_lack_of_memory(error):
        return LACK_OF_MEMORY
    if isinstance(cause, ray.exceptions.WorkerCrashedError):
        return f"its worker was killed {WORKER_RETRIES + 1} times"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    text = " ".join(str(cause).split())
    name = type(cause).__name__
    if isinstance(cause, SweepStopped):
        return f"stopped: {text}"
    return text if name in OWN_WORDS else f"{name}: {text}"[:600]
