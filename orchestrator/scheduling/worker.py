"""Ray tasks: what runs in Ray's workers, since when, what it holds, how it is ended by force, and how it leaves.

The clock of a task starts when it holds its devices, not while it waits for them, and anew with every attempt: a task
tells the scheduler itself, from the process that does the work. How long a task may take is what the sweep file says,
else a default that no honest stage meets.

Machines may be about to be taken away: spot machines with notice, pods that are evicted, nodes that are drained. Ray
knows of them by `ray drain-node`, and by the SIGTERM of a `ray start --block`. It gives such a node no new work; what
runs there is ours to bring away in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import ray
import ray.exceptions
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from smoothsweep.core.errors import SweepStopped
from smoothsweep.core.files import write_file
from smoothsweep.core.same_code import only_this_code
from smoothsweep.core.text import duration
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.context import MachineLeaving, ask_machine_leaving

GRACE_S = 2.0  # what Ray's own forced cancellation gets before the processes are killed by their numbers
KILL_PATIENCE_S = 30.0  # for a process that kills others to start on a busy node


class Process(NamedTuple):
    """A worker's process.

    Attributes:
        node: Ray's id of its machine.
        host: What a person calls that machine.
    """

    node: str
    pid: int
    host: str


@dataclass(frozen=True, kw_only=True)
class StartReporter:
    """What a task calls when it starts: 'I am this process, and from now on (clock) my devices are held'."""

    scheduler: Any
    token: int

    def __call__(self, *, clock: bool = True) -> None:
        node = ray.get_runtime_context().get_node_id()
        self.scheduler.began.remote(self.token, Process(node, os.getpid(), socket.gethostname()), clock)


@dataclass(kw_only=True, eq=False)
class Running:
    """One Ray task.

    Attributes:
        devices: Devices that it holds once it runs.
        limit: How long it may run.
        since: When it began, in seconds of the monotonic clock; None before.
    """

    stage: Stage
    devices: float
    limit: Limit
    since: float | None = None  # monotonic
    processes: set[Process] = field(default_factory=set)
    ref: Any = None
    ended_by: Exception | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def seconds(self) -> float:
        return 0.0 if self.since is None else time.monotonic() - self.since

    def device_seconds(self) -> float:
        return self.seconds() * self.devices

    def is_overdue(self) -> bool:
        return self.ended_by is None and self.seconds() > self.limit.seconds


class TasksInFlight:
    """Every Ray task that the scheduler waits for. All methods run in the scheduler's event loop."""

    def __init__(self) -> None:
        self.closed: Exception | None = None  # set: nothing new is started
        self._running: dict[int, Running] = {}
        self._tokens = itertools.count()
        self._ends: set[asyncio.Task[None]] = set()

    async def run(self, task: Running, launch: Callable[[StartReporter], Any]) -> Any:
        """Launch the Ray task and return its result. Raises its error, or the reason why it was ended."""
        if self.closed is not None:
            raise self.closed
        token = next(self._tokens)
        self._running[token] = task
        task.ref = launch(StartReporter(scheduler=ray.get_runtime_context().current_actor, token=token))
        try:
            return await task.ref
        except asyncio.CancelledError:  # a sibling failed: this one is not awaited any more
            self._end_later(task, SweepStopped(f"another part of {task.stage.label} failed"))
            raise
        except RayError as error:
            if task.ended_by is not None:
                raise task.ended_by from None
            raise error
        finally:
            del self._running[token]
            task.done.set()

    def began(self, token: int, process: Process, clock: bool) -> None:
        """A process works on this task. clock: its devices are held from now on; a retry starts the clock anew."""
        task = self._running.get(token)
        if task is not None:
            task.processes.add(Process(*process))
            task.since = time.monotonic() if clock else task.since

    @property
    def count(self) -> int:
        """How many there are, those that Ray seeks devices for included."""
        return len(self._running)

    def of(self, stage: Stage) -> list[Running]:
        return [task for task in self._running.values() if task.stage == stage]

    async def close(self, reason: Exception) -> None:
        """End everything that runs or waits, and refuse what comes later. Returns when all of it is gone."""
        self.closed = reason
        await asyncio.gather(*(end(task, reason) for task in list(self._running.values())))

    async def end_overdue(self) -> None:
        """End by force what has run longer than it may."""
        for task in [task for task in self._running.values() if task.is_overdue()]:
            self._end_later(task, TimeoutError(task.limit.reason))

    def _end_later(self, task: Running, reason: Exception) -> None:
        """End it without waiting, so that one deaf process does not keep others from being ended."""
        task.ended_by = task.ended_by or reason
        ending = asyncio.ensure_future(end(task, reason))
        self._ends.add(ending)
        ending.add_done_callback(self._ends.discard)


async def end(task: Running, reason: Exception) -> None:
    """Cancel the Ray task by force; kill its processes by number in case one is deaf (stopped, or in native code).

    Ray exits a worker from a thread of its own, which needs no Python; only a stopped process survives that. The
    processes of a Ray Train group die with the task that owns the group, and its placement group is swept away by
    `cluster.remove_lost_groups`.
    """
    task.ended_by = task.ended_by or reason
    with contextlib.suppress(RayError, ValueError):
        ray.cancel(task.ref, force=True, recursive=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(task.done.wait(), GRACE_S)
    await kill(task.processes)


async def kill(processes: set[Process]) -> None:
    """Kill -9 these workers, each on its own node; here without Ray, which might give that task to a stopped worker."""
    node_id = ray.get_runtime_context().get_node_id()
    for node in {process.node for process in processes}:
        pids = [process.pid for process in processes if process.node == node]
        if node == node_id:
            kill_here(pids)
            continue
        killer = kill_workers.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
        with contextlib.suppress(RayError, TimeoutError):  # the node has gone, and its processes with it
            await asyncio.wait_for(killer.remote(pids), KILL_PATIENCE_S)


@ray.remote(num_cpus=0, max_retries=0)
def kill_workers(pids: list[int]) -> None:
    kill_here(pids)


def kill_here(pids: list[int]) -> None:
    """Kill -9 those of these processes on this node that are Ray's workers still."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if psutil.Process(pid).cmdline()[:1] and psutil.Process(pid).cmdline()[0].startswith("ray::"):
                os.kill(pid, signal.SIGKILL)


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
    """Whether this node is being drained, or its batch job nears the time limit: asked every few seconds at most, and
    for good once it is so."""
    asked_at, is_leaving = -ASK_EVERY_S, False

    def ask() -> bool:
        nonlocal asked_at, is_leaving
        if not is_leaving and time.monotonic() - asked_at >= ASK_EVERY_S:
            asked_at = time.monotonic()
            is_leaving = node in draining_nodes() or limit_is_near()
        return is_leaving

    return ask


class DrainWatch:
    """Which nodes have been drained while the scheduler looked, so that a loss on them counts as no failure."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._asked = -ASK_EVERY_S

    def look(self) -> None:
        """Ask Ray, every few seconds at most. A node that is gone is not in its answer any more: we remember."""
        if time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            self._left |= draining_nodes()

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


def last_of_traceback(error: BaseException) -> str:
    """An error in one line. Of a message that is a whole traceback: its last line and the last place that it names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    places = [line for line in lines if line.startswith("File ")]
    if not places:
        return f"{type(error).__name__}: {' '.join(lines)}"[:400]
    return f"{lines[-1]} ({places[-1]})"[:400]
