"""Ray tasks in flight: since when each one runs, what it holds, and how it is ended by force.

The clock of a task starts when it holds its devices, not while it waits for them, and anew with every attempt: a task
tells the scheduler itself, from the process that does the work. Before that, from when Ray hands it to a worker,
another clock bounds how long the worker may take to begin. Both are the scheduler's own monotonic clock. How long a
task may take is what the sweep file says, else a default that no honest stage meets.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psutil
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from smoothsweep.core.checks import present
from smoothsweep.core.errors import SweepStopped
from smoothsweep.core.text import duration
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store

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
        heartbeat: The heartbeat of its stage.
        since: When it began, in seconds of the monotonic clock; None before.
        given: The attempt that Ray has handed to a worker which has not begun, and since when.
    """

    stage: Stage
    devices: float
    limit: Limit | None = None
    heartbeat: Heartbeat | None = None
    since: float | None = None  # monotonic
    given: tuple[int, float] | None = None
    processes: set[Process] = field(default_factory=set)
    ref: Any = None
    ended_by: Exception | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def seconds(self) -> float:
        return 0.0 if self.since is None else time.monotonic() - self.since

    def device_seconds(self) -> float:
        return self.seconds() * self.devices

    def is_overdue(self) -> bool:
        if self.limit is None or self.since is None or self.ended_by is not None:
            return False
        if self.limit.total_s is not None:
            return self.seconds() > self.limit.total_s
        silent = self.heartbeat.silent_s(self.since, time.monotonic()) if self.heartbeat else self.seconds()
        return self.limit.silent_s is not None and silent > self.limit.silent_s


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
            task.given = None

    @property
    def count(self) -> int:
        """How many there are, those that Ray seeks devices for included."""
        return len(self._running)

    def of(self, stage: Stage) -> list[Running]:
        return [task for task in self._running.values() if task.stage == stage]

    def not_begun(self) -> list[Running]:
        """Tasks whose process has not reported yet: Ray seeks devices for them, or a worker is silent."""
        return [task for task in self._running.values() if not task.processes and task.ended_by is None]

    async def close(self, reason: Exception) -> None:
        """End everything that runs or waits, and refuse what comes later. Returns when all of it is gone."""
        self.closed = reason
        await asyncio.gather(*(end(task, reason) for task in list(self._running.values())))

    async def end_overdue(self) -> None:
        """End by force what has run longer than it may."""
        for task in [task for task in self._running.values() if task.is_overdue()]:
            self._end_later(task, TimeoutError(present(task.limit, "limit").reason()))

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


QUIET_S = 5 * 60.0
QUIET_TIMES = 5  # the longest silence that such work has shown so far


@dataclass(kw_only=True)
class Heartbeat:
    """usual_s: the longest time between two signs so far; at first what such a stage takes as a whole, if known."""

    last: float
    usual_s: float = 0.0
    _mark: Any = None
    _seen: bool = False
    _told_s: float = field(default=0.0, repr=False)

    def see(self, mark: Any, now: float) -> None:
        """Note what the stage shows now; whatever differs from the last time is a sign."""
        if mark == self._mark:
            return
        gap = now - self.last
        self.usual_s = max(self.usual_s, gap) if self._seen else gap
        self._mark, self._seen, self.last, self._told_s = mark, True, now, 0.0

    def silent_s(self, since: float, now: float) -> float:
        """How long nothing was seen of it. since: when its last task began: to wait for a device is no silence."""
        return now - max(self.last, since)

    def is_worth_a_line(self, since: float, now: float) -> bool:
        """Whether it is silent for long; once, and again whenever the silence has doubled."""
        silent = self.silent_s(since, now)
        if silent <= max(QUIET_S, QUIET_TIMES * self.usual_s, 2 * self._told_s):
            return False
        self._told_s = silent
        return True


FLOOR_S = 30 * 60.0
TIMES = 20  # what such a stage has taken: machines differ by less
UNKNOWN_S = 72 * 3600.0  # where nothing alike was measured on such a device
BEGIN_S = 10 * 60.0  # for a worker to begin a task that it was given: a moment, unless the process was stopped
SETUP_S = 10 * 60.0  # for it to load torch and the stage's code: minutes on a cold network disk


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How long a task may take, in seconds.

    Attributes:
        total_s: Time from the start, whatever happens; None for no such limit.
        silent_s: Time since the last sign of life.
    """

    total_s: float | None
    silent_s: float | None
    setting: str | None

    def reason(self) -> str:
        """What is said of a task that this limit has ended."""
        if self.total_s is not None:
            return f"ran longer than {self.setting} allows ({duration(self.total_s)}), and was ended"
        setting_note = f"; {self.setting} sets a limit of its own" if self.setting else ""
        return f"gave no sign of life for {duration(present(self.silent_s, 'silent s'))}, and was ended{setting_note}"


class Limits:
    """The limits of every stage of a sweep. resources: its `resources` as a mapping."""

    def __init__(self, store: Store, resources: dict[str, Any]) -> None:
        self._history, self._resources = History(store), resources

    def of(self, stage: Stage, expected_s: float | None) -> Limit:
        """The sweep file's time-out; without one, silence for `TIMES` what such a stage takes, half an hour at least.

        Silence, not time: what an estimate is worth is not known, but a stage that goes on leaving marks is at work.
        """
        kind = "training" if stage.task.trains else "attack"
        setting = f"resources.{kind}_timeout_minutes" if _has_setting(stage) else None
        minutes = self._resources.get(setting.removeprefix("resources.")) if setting else None
        if minutes is not None:
            return Limit(total_s=60 * minutes, silent_s=None, setting=setting)
        silent_s = UNKNOWN_S if expected_s is None else max(FLOOR_S, TIMES * expected_s)
        return Limit(total_s=None, silent_s=silent_s, setting=setting)

    def expected_s(self, stage: Stage, device: str) -> float | None:
        """The longest that such a stage has taken on such a device ('cpu' or 'cuda'); None if none is known.

        Reads manifests: not for the event loop.
        """
        known = self._history.devices(stage.name) == {device}
        expected = self._history.expected(stage) if known else None
        return None if expected is None else expected[2]


def _has_setting(stage: Stage) -> bool:
    return stage.task.trains or stage.task.shard is not None


LOOK_EVERY_S = 15.0  # the table that Ray gives is that of all tasks


@dataclass(frozen=True, kw_only=True)
class TaskDispatch:
    """Where Ray stands with a task that was handed to it.

    Attributes:
        attempt: Number of the attempt, as Ray counts from 0.
        runs: The worker has begun it, as far as Ray knows (it may be loading code).
        process: The worker's; None where Ray does not know it any more.
    """

    attempt: int
    runs: bool
    process: Process | None


def read_dispatches(task_ids: list[bytes]) -> dict[bytes, TaskDispatch]:
    """The last attempt of those of these tasks that a worker has been given; one that waits for resources is not here.

    Ray's public table of tasks needs the dashboard, which need not run; this is where it reads from.
    """
    from ray._private.state import state
    from ray.core.generated import common_pb2, gcs_pb2

    status: Any = common_pb2  # protobuf makes its classes and values when it is imported
    table: Any = gcs_pb2
    accessor, dispatches = state._connect_and_get_accessor(), {}
    for raw in accessor.get_task_events():
        if not any(task_id in raw for task_id in task_ids):  # most are not ours: not worth the reading
            continue
        event = table.TaskEvents.FromString(raw)
        if event.task_id in task_ids and status.SUBMITTED_TO_WORKER in event.state_updates.state_ts_ns:
            known = dispatches.get(event.task_id)
            if known is None or known.attempt_number < event.attempt_number:
                dispatches[event.task_id] = event
    if not dispatches:
        return {}
    workers = [table.WorkerTableData.FromString(raw) for raw in accessor.get_worker_table()]
    by_id = {worker.worker_address.worker_id: worker for worker in workers if worker.is_alive}
    return {
        task_id: TaskDispatch(
            attempt=event.attempt_number,
            runs=status.RUNNING in event.state_updates.state_ts_ns,
            process=_process(by_id.get(event.state_updates.worker_id)),
        )
        for task_id, event in dispatches.items()
    }


def _process(worker: Any) -> Process | None:
    """worker: a `WorkerTableData`, or None."""
    if worker is None or not worker.pid:
        return None
    address = worker.worker_address
    return Process(node=address.node_id.hex(), pid=worker.pid, host=address.ip_address)


class StartWatch:
    """Sees to it that workers begin what they were given. One that does not is killed: Ray gives its task to another.

    begin_s: what a worker gets to begin; SETUP_S on top to load its code. say: gets a line for people.
    """

    def __init__(self, tasks: TasksInFlight, begin_s: float, say: Callable[[str], None]) -> None:
        self._tasks, self._begin_s, self._say = tasks, begin_s, say
        self._next, self._kills = 0.0, set()

    async def check(self, now: float) -> None:
        """now: monotonic seconds. Asks Ray only if a task has not begun, and not often: most of them just wait."""
        waiting = {task.ref.task_id().binary(): task for task in self._tasks.not_begun()}
        if not waiting or now < self._next:
            return
        self._next = now + min(LOOK_EVERY_S, self._begin_s / 4)
        dispatches = await asyncio.to_thread(read_dispatches, list(waiting))
        for task_id, task in waiting.items():
            dispatch = dispatches.get(task_id)
            if dispatch is None or dispatch.process is None:
                task.given = None
            elif task.given is None or task.given[0] != dispatch.attempt:
                task.given = (dispatch.attempt, now)
            elif not task.processes and (late := now - task.given[1]) > self._begin_s + dispatch.runs * SETUP_S:
                task.given = (dispatch.attempt, now)
                self._replace(task, dispatch.process, late)

    def _replace(self, task: Running, process: Process, late: float) -> None:
        self._say(
            f"{task.stage.label}: process {process.pid} on {process.host} was given it {duration(late)} ago "
            "and has not begun; killed, so that another does it"
        )
        killing = asyncio.ensure_future(kill({process}))
        self._kills.add(killing)
        killing.add_done_callback(self._kills.discard)
