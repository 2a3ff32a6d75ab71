"""Ray tasks in flight: since when each one runs, what it holds, and how it is ended by force.

The clock of a task starts when it holds its devices, not while it waits for them, and anew with every attempt: a task
tells the scheduler itself, from the process that does the work. Before that, from when Ray hands it to a worker,
another clock bounds how long the worker may take to begin. Both are the scheduler's own monotonic clock.
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
from smoothsweep.orchestrator.scheduling.heartbeat import Heartbeat
from smoothsweep.orchestrator.scheduling.limits import Limit
from smoothsweep.orchestrator.stages.stage import Stage

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
