"""The one actor that starts work, and the Ray tasks that it starts: every trial asks it for stages, each is made once.

A trial holds no CPU. It says "make sure this artifact exists" and waits. The scheduler makes inputs first, lets
simultaneous requests for one stage share the same work, fans classes out with a bound on what is in flight, and tells
the sweep's driver what happens. It remembers nothing that matters: the store does.

How long a task may take is what the sweep file says, else a default that no honest stage meets. Machines may be about
to be taken away: spot machines with notice, pods that are evicted, nodes that are drained. Ray knows of them by `ray
drain-node`, and by the SIGTERM of a `ray start --block`. It gives such a node no new work; what runs there is ours to
bring away in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import ray
import ray.exceptions
from ray.exceptions import RayError, RayTaskError

from smoothsweep.core.errors import ArtifactDamaged, SweepStopped
from smoothsweep.core.files import write_file
from smoothsweep.core.same_code import only_this_code
from smoothsweep.core.text import duration
from smoothsweep.orchestrator.cluster.connection import remove_lost_groups
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store, classes_of
from smoothsweep.tasks.classes import CLASSES_FOLDER, batches, classes_without_file, groups
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


def limit_of(stage: Stage, resources: Mapping[str, Any]) -> tuple[float, str]:
    """How many seconds a task of the stage may take, and what is said of one that took longer."""
    kind = "training" if stage.task.trains else "attack" if stage.task.shard is not None else None
    setting = f"resources.{kind}_timeout_minutes"
    if (minutes := resources.get(f"{kind}_timeout_minutes")) is not None:
        return 60.0 * minutes, f"ran longer than {setting} allows ({duration(60.0 * minutes)}), and was ended"
    hint = f"; {setting} sets a limit of its own" if kind else ""
    return LONGEST_S, f"ran for {duration(LONGEST_S)}, and was ended{hint}"


LONGEST_S = 72 * 3600.0  # of a task without a limit of its own
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


DAMAGED_INPUTS = 8  # found while one stage is made, and made again; then something goes on damaging them
WATCH_EVERY_S = 1.0  # how late a time-out may be
MOVE_PAUSE_S = 1.0  # before work that a machine has let go of is given to another
GRACE_S = 2.0  # for what is ended by force


@dataclass(kw_only=True, eq=False)
class Running:
    """One Ray task that the scheduler waits for.

    Its clock starts when it holds its devices, not while it waits for them, and anew with every attempt: it tells the
    scheduler itself, from the process that does the work.

    Attributes:
        devices: Devices that it holds once it runs.
        limit: How many seconds it may run, and what is said then.
        since: When it began, in seconds of the monotonic clock; None before.
    """

    stage: Stage
    devices: float
    limit: tuple[float, str]
    since: float | None = None
    processes: set[Process] = field(default_factory=set)
    ref: Any = None
    ended_by: Exception | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def seconds(self) -> float:
        return 0.0 if self.since is None else time.monotonic() - self.since

    async def end(self, reason: Exception) -> None:
        """Cancel it by force: Ray exits its worker from a thread of its own, which needs no Python."""
        self.ended_by = self.ended_by or reason
        with contextlib.suppress(RayError, ValueError):
            ray.cancel(self.ref, force=True, recursive=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.done.wait(), GRACE_S)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class StageScheduler:
    """Makes stages on request. Every method is a coroutine: thousands may wait at once.

    resources: the sweep's `resources` as a mapping; cpus, gpus: what the cluster has. code: digest of the code that
    workers must have; None for any.
    """

    def __init__(
        self,
        store: Store,
        resources: dict[str, Any],
        cpus: int,
        gpus: float,
        code: str | None = None,
    ) -> None:
        self.store = store
        self.resources = resources
        self.cpus, self.gpus = cpus, gpus
        self.code = code
        self.in_flight: dict[str, asyncio.Task[None]] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.events: deque[dict[str, Any]] = deque()
        self.closed: Exception | None = None  # set: nothing new is started
        self.tasks: dict[int, Running] = {}
        self.tokens, self.ends = itertools.count(), set[asyncio.Task[None]]()
        self.departures = DrainWatch()
        self.watching: asyncio.Task[None] | None = None
        self.had_groups = False

    async def ensure(self, stage: Stage) -> None:
        """Return when the artifact exists. Raises the task's error, also to everybody else who asked.

        Raises SweepStopped if the sweep was stopped before the artifact was made.
        """
        self.watching = self.watching or asyncio.ensure_future(self._watch())
        if self.closed is not None:
            raise self.closed
        if stage.fingerprint not in self.in_flight:  # no await before it is entered: a second asker must find it
            self.in_flight[stage.fingerprint] = asyncio.ensure_future(self._make(stage))
        await asyncio.shield(self.in_flight[stage.fingerprint])

    async def stop(self, reason: str) -> None:
        """Start nothing more and end by force what runs; returns when it is gone. What was open raises SweepStopped.

        Checkpoints and finished classes stay. May be called again, also after the scheduler was lost and restarted.
        """
        self.closed = SweepStopped(reason)
        await asyncio.gather(*(task.end(self.closed) for task in list(self.tasks.values())))
        if self.had_groups:
            await asyncio.to_thread(remove_lost_groups)

    async def began(self, token: int, process: Process, clock: bool) -> None:
        """A process works on a task. clock: its devices are held from now on; a retry starts the clock anew."""
        if (task := self.tasks.get(token)) is not None:
            task.processes.add(Process(*process))
            task.since = time.monotonic() if clock else task.since

    async def snapshot(self) -> dict[str, Any]:
        """What runs now (with the marks its workers left) and what happened since the last call.

        `waits` of what runs: what every task of it waits for, empty where one is at work. `seconds`: of its tasks.
        `device_seconds` of what runs: of its tasks in flight, from when they held their devices. Those of a task that
        ended are an event `work`, with its stage's fingerprint, whether it succeeded or not.
        """
        entries, running = list(self.running.values()), []
        marks = await asyncio.to_thread(self.store.marks, [entry["stage"] for entry in entries])
        events, self.events = list(self.events), deque()
        for entry, mark in zip(entries, (mark or {} for mark in marks), strict=True):
            tasks = [task for task in self.tasks.values() if task.stage == entry["stage"]]
            running.append(
                {
                    "stage": entry["stage"].name,
                    "fingerprint": entry["stage"].fingerprint,
                    "since": entry["since"],
                    "fraction": entry.get("fraction", mark.get("fraction", 0.0)),
                    "text": mark.get("text", ""),
                    "device_seconds": sum(task.seconds() * task.devices for task in tasks),
                    "seconds": sum(task.seconds() for task in tasks),
                    "waits": self._waits_for(entry["stage"], tasks),
                }
            )
        return {"running": running, "events": events}

    async def _make(self, stage: Stage) -> None:
        try:
            if await asyncio.to_thread(self.store.has, stage):
                return
            for attempts_left in reversed(range(DAMAGED_INPUTS + 1)):
                await asyncio.gather(*(self.ensure(source) for source in stage.inputs.values()))
                self.running[stage.fingerprint] = {"stage": stage, "since": time.time()}
                try:
                    if stage.task.shard:
                        await self._fan_out(stage)
                    await self._run(stage, execute_remotely, self.store, stage)
                    break
                except ArtifactDamaged as damaged:  # set aside by its reader; the next attempt makes it again
                    if not attempts_left:
                        raise
                    self._say(one_line(damaged))
                    self.store.look_again(stage.inputs.values())
                finally:
                    self.running.pop(stage.fingerprint, None)
            self._tell(stage, "done")
        finally:
            self.in_flight.pop(stage.fingerprint, None)

    async def _fan_out(self, stage: Stage) -> None:
        """Submit groups of classes, never more than twice what the devices can hold."""
        classes = await asyncio.to_thread(classes_of, stage, self.store)
        todo = classes_without_file(classes, await asyncio.to_thread(self.store.kept, stage, CLASSES_FOLDER))
        whole = batches(classes, stage.config.get("class_batch", 1))
        left = [batch for batch in whole if not set(todo).isdisjoint(batch)]
        share = self._share(stage)
        slots = max(1, int(self.gpus / share["num_gpus"]) if share["num_gpus"] else self.cpus // share["num_cpus"])
        in_flight = asyncio.Semaphore(2 * slots)
        done = len(classes) - sum(map(len, left))

        async def submit(group: list[int]) -> None:
            nonlocal done
            async with in_flight:
                done += await self._run(stage, execute_shard_remotely, self.store, stage, group)
                self.running[stage.fingerprint]["fraction"] = done / len(classes)

        self.running[stage.fingerprint]["fraction"] = done / len(classes)
        submissions = [
            asyncio.ensure_future(submit(group))
            for group in groups(left, devices=slots, per_task=self.resources.get("classes_per_task"))
        ]
        try:
            await asyncio.gather(*submissions)
        finally:
            for submission in submissions:
                submission.cancel()
        await asyncio.to_thread(self.store.mark, stage, 1.0, "collecting")

    async def _run(self, stage: Stage, remote: Any, *arguments: Any) -> Any:
        """Ray tasks of the stage until one ends on a machine that stays: its result, or why there is none."""
        while True:
            self.had_groups |= is_group(stage)
            devices = self._devices(stage, self._share(stage))
            running = Running(stage=stage, devices=devices, limit=limit_of(stage, self.resources))
            try:
                return await self._attempt(running, remote, *arguments)
            except (MachineLeaving, RayError) as error:
                await asyncio.to_thread(self.departures.look)
                if not self.departures.explain(error, running.processes):
                    raise
                if limit_is_near():
                    self._say(f"{stage.label}: the job's time limit is near; the next start goes on with it")
                    while limit_is_near():  # we are about to be ended
                        await asyncio.sleep(MOVE_PAUSE_S)
                    continue
                hosts = ", ".join(sorted({process.host for process in running.processes})) or "the machine it was for"
                self._say(f"{stage.label}: {hosts} leaves; it goes on elsewhere")
                await asyncio.sleep(MOVE_PAUSE_S)

    async def _attempt(self, task: Running, remote: Any, *arguments: Any) -> Any:
        """One Ray task to its end: its result. Raises its error, or the reason why it was ended."""
        if self.closed is not None:
            raise self.closed
        token = next(self.tokens)
        self.tasks[token] = task
        tell = StartReporter(scheduler=ray.get_runtime_context().current_actor, token=token)
        task.ref = remote.options(**self._share(task.stage)).remote(*arguments, tell, self.code)
        try:
            return await task.ref
        except asyncio.CancelledError:  # a sibling failed: this one is not awaited any more
            self._end_later(task, SweepStopped(f"another part of {task.stage.label} failed"))
            raise
        except RayError:
            if task.ended_by is not None:
                raise task.ended_by from None
            raise
        finally:
            del self.tasks[token]
            task.done.set()
            spent = {"seconds": task.seconds(), "device_seconds": task.seconds() * task.devices}
            self._tell(task.stage, "work", **spent)

    def _end_later(self, task: Running, reason: Exception) -> None:
        """End it without waiting."""
        task.ended_by = task.ended_by or reason
        ending = asyncio.ensure_future(task.end(reason))
        self.ends.add(ending)
        ending.add_done_callback(self.ends.discard)

    def _waits_for(self, stage: Stage, tasks: list[Running]) -> str:
        if not tasks or any(task.processes for task in tasks):
            return ""
        if is_group(stage):
            return "its workers to start"
        return "a free GPU" if self._share(stage)["num_gpus"] else "a free CPU core"

    def _devices(self, stage: Stage, share: dict[str, Any]) -> float:
        """How many devices one task of the stage holds: GPUs, or CPUs where there are none."""
        if is_group(stage):
            return stage.config["workers"]
        return share["num_gpus"] or (0.0 if self.gpus else share["num_cpus"])

    async def _watch(self) -> None:
        """As long as there is work: end what runs too long, and free what lost Ray Train groups hold."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for task in list(self.tasks.values()):
                limit_s, reason = task.limit
                if task.ended_by is None and task.seconds() > limit_s:
                    self._end_later(task, TimeoutError(reason))
            if not self.tasks and limit_is_near():  # the script of the batch job need wait for the limit no longer
                await asyncio.to_thread(write_file, Path(os.environ[LEAVE_FILE]).with_name(LEFT), "", flush=False)
            with contextlib.suppress(RayError):
                await asyncio.to_thread(self.departures.look)
            if self.had_groups:
                with contextlib.suppress(RayError):
                    await asyncio.to_thread(remove_lost_groups)

    def _share(self, stage: Stage) -> dict[str, Any]:
        """CPUs and GPUs of one task. Where there is no GPU none is asked for: such a task would wait for ever."""
        if is_group(stage):
            return {"num_cpus": 0, "num_gpus": 0}  # Ray Train's workers hold them
        wish = self.resources["gpus_per_training" if stage.task.trains else "gpus_per_task"]
        gpus = min(wish, self.gpus) if self.gpus and stage.task.on_device else 0
        return {"num_cpus": self.resources["cpus_per_task"], "num_gpus": gpus}

    def _say(self, line: str) -> None:
        self.events.append({"what": "say", "line": line})

    def _tell(self, stage: Stage, what: str, **details: Any) -> None:
        self.events.append({"what": what, "stage": stage.name, "fingerprint": stage.fingerprint, **details})
