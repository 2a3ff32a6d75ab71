"""The one actor that starts work: every trial asks it for stages, and each stage is made once.

A trial is a thin driver without a CPU of its own. It says "make sure this artifact exists" and waits. The keeper
makes inputs first, lets simultaneous requests for one stage share the same work, fans classes out with a bound on
what is in flight, and tells the sweep's driver what happens. It remembers nothing that matters: the store does.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import ray

from orchestrator.execute import execute, execute_shard
from orchestrator.stage import Stage
from orchestrator.store import Store
from tasks.classes import classes_to_do, groups, remaining
from tasks.context import read_progress, write_progress
from tasks.registry import task

WORKER_RETRIES = 3  # for killed workers and lost nodes; an exception of the task itself is not retried


@ray.remote(max_retries=WORKER_RETRIES)
def execute_remotely(store: Store, stage: Stage) -> None:
    execute(store, stage)


@ray.remote(max_retries=WORKER_RETRIES)
def execute_shard_remotely(store: Store, stage: Stage, classes: list[int]) -> int:
    return execute_shard(store, stage, classes)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class StageKeeper:
    """Makes stages on request. Every method is a coroutine: thousands may wait at once.

    resources: the sweep's `resources` as a mapping; cpus, gpus: what the cluster has.
    """

    def __init__(self, store: Store, resources: dict[str, Any], cpus: int, gpus: float) -> None:
        self.store = store
        self.resources = resources
        self.cpus, self.gpus = cpus, gpus
        self.in_flight: dict[str, asyncio.Task[None]] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.events: deque[dict[str, Any]] = deque()

    async def ensure(self, stage: Stage) -> None:
        """Return when the artifact exists. Raises the task's error, also to everybody else who asked."""
        if stage.fingerprint not in self.in_flight:  # no await before it is entered: a second asker must find it
            self.in_flight[stage.fingerprint] = asyncio.ensure_future(self._make(stage))
        await asyncio.shield(self.in_flight[stage.fingerprint])

    async def trial_ended(self, trial_id: str, failure: str | None) -> None:
        """A trial's driver is through; failure is the cause in one line, or None."""
        self.events.append({"what": "trial", "trial": trial_id, "failure": failure})

    async def snapshot(self) -> dict[str, Any]:
        """What runs now (with the marks its workers left) and what happened since the last call."""
        events, self.events = list(self.events), deque()
        running = []
        for entry in list(self.running.values()):
            mark = read_progress(self.store.work(entry["stage"])) or {}
            running.append(
                {
                    "stage": entry["stage"].name,
                    "fingerprint": entry["stage"].fingerprint,
                    "since": entry["since"],
                    "fraction": entry.get("fraction", mark.get("fraction", 0.0)),
                    "text": mark.get("text", ""),
                }
            )
        return {"running": running, "events": events}

    async def _make(self, stage: Stage) -> None:
        try:
            if await asyncio.to_thread(self.store.has, stage):
                return
            await asyncio.gather(*(self.ensure(source) for source in stage.inputs.values()))
            self.running[stage.fingerprint] = {"stage": stage, "since": time.time()}
            if task(stage.name).shard:
                await self._fan_out(stage)
            await execute_remotely.options(**self._share(stage)).remote(self.store, stage)
        except Exception as error:
            self._tell(stage, "failed", cause=one_line(error))
            raise
        else:
            self._tell(stage, "done", seconds=time.time() - self.running[stage.fingerprint]["since"])
        finally:
            self.running.pop(stage.fingerprint, None)
            self.in_flight.pop(stage.fingerprint, None)

    async def _fan_out(self, stage: Stage) -> None:
        """Submit groups of classes, never more than twice what the devices can hold."""
        inputs = {name: self.store.path(source) for name, source in stage.inputs.items()}
        classes = classes_to_do(stage.config, inputs)
        work = self.store.work(stage)
        todo = remaining(classes, work)
        share = self._share(stage)
        slots = max(1, int(self.gpus / share["num_gpus"]) if share["num_gpus"] else self.cpus // share["num_cpus"])
        in_flight = asyncio.Semaphore(2 * slots)
        done = len(classes) - len(todo)

        async def submit(group: list[int]) -> None:
            nonlocal done
            async with in_flight:
                done += await execute_shard_remotely.options(**share).remote(self.store, stage, group)
                self.running[stage.fingerprint]["fraction"] = done / len(classes)

        self.running[stage.fingerprint]["fraction"] = done / len(classes)
        submissions = [
            asyncio.ensure_future(submit(group))
            for group in groups(todo, devices=slots, per_task=self.resources.get("classes_per_task"))
        ]
        try:
            await asyncio.gather(*submissions)
        finally:
            for submission in submissions:
                submission.cancel()
        if work.exists():
            write_progress(work, 1.0, "collecting")

    def _share(self, stage: Stage) -> dict[str, Any]:
        """CPUs and GPUs of one task. Where there is no GPU none is asked for: such a task would wait for ever."""
        if stage.config.get("workers", 1) > 1:
            return {"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": "DEFAULT"}  # Ray Train's workers hold them
        wish = self.resources["gpus_per_training" if task(stage.name).trains else "gpus_per_task"]
        needs_device = stage.name not in ("data", "public", "toy", "sleep")
        return {
            "num_cpus": self.resources["cpus_per_task"],
            "num_gpus": min(wish, self.gpus) if self.gpus and needs_device else 0,
            "scheduling_strategy": "DEFAULT",
        }

    def _tell(self, stage: Stage, what: str, **details: Any) -> None:
        self.events.append({"what": what, "stage": stage.name, "fingerprint": stage.fingerprint, **details})


def one_line(error: BaseException) -> str:
    """The cause a person needs: the task's own error in one line, without Ray's wrapping and traceback."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ray.exceptions.WorkerCrashedError):
        return f"its worker was killed {WORKER_RETRIES + 1} times"
    if isinstance(cause, ray.exceptions.OutOfMemoryError):
        return "its worker was killed again and again for lack of memory"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    text = " ".join(str(cause).split())
    name = type(cause).__name__
    return text if name in ("InputError", "TrainingDiverged", "AccuracyNotReached") else f"{name}: {text}"[:600]
