"""The one actor that starts work: every trial asks it for stages, and each stage is made once.

A trial is a thin driver without a CPU of its own. It says "make sure this artifact exists" and waits. The scheduler
makes inputs first, lets simultaneous requests for one stage share the same work, fans classes out with a bound on
what is in flight, and tells the sweep's driver what happens. It remembers nothing that matters: the store does.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from smoothsweep.core.errors import ArtifactDamaged, SweepStopped
from smoothsweep.orchestrator.cluster.connection import remove_lost_groups
from smoothsweep.orchestrator.planning.state import classes_of
from smoothsweep.orchestrator.scheduling.worker import (
    DrainWatch,
    Limit,
    Limits,
    Process,
    StartReporter,
    execute_remotely,
    execute_shard_remotely,
    is_group,
    limit_is_near,
    one_line,
    report_all_left,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.classes import CLASSES_FOLDER, batches, classes_without_file, groups
from smoothsweep.tasks.context import MachineLeaving

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
        limit: How long it may run.
        since: When it began, in seconds of the monotonic clock; None before.
    """

    stage: Stage
    devices: float
    limit: Limit
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
        self.held_to = {"code": code} if code else {}
        self.in_flight: dict[str, asyncio.Task[None]] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.events: deque[dict[str, Any]] = deque()
        self.closed: Exception | None = None  # set: nothing new is started
        self.tasks: dict[int, Running] = {}
        self.tokens, self.ends = itertools.count(), set[asyncio.Task[None]]()
        self.limits, self.asking = Limits(store, resources), asyncio.Lock()
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

    async def trial_ended(self, trial_id: str, failure: str | None) -> None:
        """A trial's driver is through; failure is the cause in one line, or None."""
        self.events.append({"what": "trial", "trial": trial_id, "failure": failure})

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
                try:
                    await self._make_from_inputs(stage)
                    break
                except ArtifactDamaged as damaged:  # set aside by its reader; the next attempt makes it again
                    if not attempts_left:
                        raise
                    self._say(one_line(damaged))
                    self.store.look_again(stage.inputs.values())
        except Exception as error:
            self._tell(stage, "failed", cause=one_line(error))
            raise
        else:
            self._tell(stage, "done")
        finally:
            self.in_flight.pop(stage.fingerprint, None)

    async def _make_from_inputs(self, stage: Stage) -> None:
        device = "cuda" if self.gpus and stage.task.on_device else "cpu"
        async with self.asking:
            limit = await asyncio.to_thread(self.limits.of, stage, device)
        self.running[stage.fingerprint] = {"stage": stage, "since": time.time(), "limit": limit}
        try:
            if stage.task.shard:
                await self._fan_out(stage)
            await self._run(stage, execute_remotely, self.store, stage)
        finally:
            self.running.pop(stage.fingerprint, None)

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
            limit = self.running[stage.fingerprint]["limit"]
            running = Running(stage=stage, devices=self._devices(stage, self._share(stage)), limit=limit)
            try:
                return await self._attempt(running, remote, *arguments)
            except (MachineLeaving, RayError) as error:
                await asyncio.to_thread(self.departures.look)
                if not self.departures.explain(error, running.processes):
                    raise
                if await self._waits_for_the_limit(stage):
                    continue
                hosts = ", ".join(sorted({process.host for process in running.processes})) or "the machine it was for"
                self._say(f"{stage.label}: {hosts} leaves; it goes on elsewhere")
                await asyncio.sleep(MOVE_PAUSE_S)

    async def _waits_for_the_limit(self, stage: Stage) -> bool:
        """Wait while the time limit of our batch job is near: we are about to be ended. False where it is not."""
        if not limit_is_near():
            return False
        self._say(f"{stage.label}: the job's time limit is near; the next start goes on with it")
        while limit_is_near():
            await asyncio.sleep(MOVE_PAUSE_S)
        return True

    async def _attempt(self, task: Running, remote: Any, *arguments: Any) -> Any:
        """One Ray task to its end: its result. Raises its error, or the reason why it was ended."""
        if self.closed is not None:
            raise self.closed
        token = next(self.tokens)
        self.tasks[token] = task
        tell = StartReporter(scheduler=ray.get_runtime_context().current_actor, token=token)
        task.ref = remote.options(**self._share(task.stage)).remote(*arguments, tell, **self.held_to)
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
                if task.ended_by is None and task.seconds() > task.limit.seconds:
                    self._end_later(task, TimeoutError(task.limit.reason))
            if not self.tasks and limit_is_near():
                await asyncio.to_thread(report_all_left)
            with contextlib.suppress(RayError):
                await asyncio.to_thread(self.departures.look)
            if self.had_groups:
                with contextlib.suppress(RayError):
                    await asyncio.to_thread(remove_lost_groups)

    def _share(self, stage: Stage) -> dict[str, Any]:
        """CPUs and GPUs of one task. Where there is no GPU none is asked for: such a task would wait for ever."""
        if is_group(stage):
            return {"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": "DEFAULT"}  # Ray Train's workers hold them
        wish = self.resources["gpus_per_training" if stage.task.trains else "gpus_per_task"]
        needs_device = stage.task.on_device
        return {
            "num_cpus": self.resources["cpus_per_task"],
            "num_gpus": min(wish, self.gpus) if self.gpus and needs_device else 0,
            "scheduling_strategy": "DEFAULT",
        }

    def _say(self, line: str) -> None:
        self.events.append({"what": "say", "line": line})

    def _tell(self, stage: Stage, what: str, **details: Any) -> None:
        self.events.append({"what": what, "stage": stage.name, "fingerprint": stage.fingerprint, **details})
