"""How busy the devices of a cluster are kept: the real scheduler on a simulated cluster, held against the real Ray.

The simulation runs the scheduler's own code in an event loop whose clock jumps to the next event, so that days on
64 GPUs take seconds. Only Ray's edge is played: a task waits for its share of a device on some node, holds it for its
duration, and costs a start. One small workload on both says how far the simulation can be trusted.

python -m benchmarks.scheduling [--real 4 8 16]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import selectors
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.scheduling import scheduler as scheduler_module
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.local import LocalStore

HOUR = 3600.0
NEVER = 1e6 * HOUR  # nothing is lost, stopped or drained there
GPUS, GPUS_PER_NODE = 64, 8
SLOTS_PER_GPU = (0.25, 0.5, 1.0, 1.5, 2.0)
TASK_START_S = 10.0  # of a simulated GPU task: a worker that loads its networks before the first step
RESOURCES = {"cpus_per_task": 1, "gpus_per_training": 1.0, "gpus_per_task": 0.5, "classes_per_task": None}


class JumpingClock(selectors.SelectSelector):
    """A selector that, instead of waiting, moves the time on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("simulation: everybody waits for somebody")
        if not ready:
            self.now += max(0.0, timeout)
        return ready


@dataclass(frozen=True, kw_only=True)
class SimulatedStore(LocalStore):
    """A store that remembers in memory what is done."""

    done: set[str] = field(default_factory=set)

    def has(self, stage: Stage) -> bool:
        return stage.fingerprint in self.done


@dataclass(kw_only=True)
class SimulatedCluster:
    """Tasks take devices in the order of submission; one that does not fit lets later ones of another size pass.

    free: devices of each node. start_s: what a task needs before its work while it holds its share. busy:
    device-seconds of work so far; begun: (time, busy so far) of every task.
    """

    free: list[float]
    start_s: float
    busy: float = 0.0
    begun: list[tuple[float, float]] = field(default_factory=list)
    waiting: dict[float, deque[tuple[int, asyncio.Future[int]]]] = field(default_factory=dict)  # by share
    submitted: int = 0

    async def run(self, seconds: float, share: float) -> None:
        loop = asyncio.get_running_loop()
        placed: asyncio.Future[int] = loop.create_future()
        self.waiting.setdefault(share, deque()).append((self.submitted, placed))
        self.submitted += 1
        self._place()
        node = await placed
        self.begun.append((loop.time(), self.busy))
        await asyncio.sleep(self.start_s + seconds)
        self.busy += seconds * share
        self.free[node] += share
        self._place()

    def _place(self) -> None:
        while True:
            room = max(self.free) + 1e-9
            heads = [(queue[0][0], share) for share, queue in self.waiting.items() if queue and share <= room]
            if not heads:
                return
            _, share = min(heads)
            _, placed = self.waiting[share].popleft()
            node = min((i for i, free in enumerate(self.free) if free >= share - 1e-9), key=lambda i: self.free[i])
            self.free[node] -= share
            placed.set_result(node)


@dataclass(frozen=True, kw_only=True)
class SimulatedRemote:
    """Stands where a Ray remote function stands: `options(...).remote(...)` gives something to await."""

    cluster: SimulatedCluster
    store: SimulatedStore
    device: str  # num_gpus or num_cpus
    share: float = 0.0

    def options(self, **share: Any) -> SimulatedRemote:
        return SimulatedRemote(cluster=self.cluster, store=self.store, device=self.device, share=share[self.device])

    def remote(self, _: Store, stage: Stage, *rest: Any) -> asyncio.Task[int]:
        classes = rest[0] if isinstance(rest[0], list) else None
        return asyncio.ensure_future(self._run(stage, classes))

    async def _run(self, stage: Stage, classes: list[int] | None) -> int:
        if classes is not None:
            await self.cluster.run(stage.config["seconds"] * len(classes), self.share)
            return len(classes)
        collects = "classes" in stage.config  # its parts are done: no time to speak of
        await self.cluster.run(0.0 if collects else stage.config["seconds"], self.share)
        self.store.done.add(stage.fingerprint)
        return 0


def simulate(trials: list[list[Stage]], *, devices: int, slots: int, device: str, start_s: float) -> dict[str, float]:
    """Hours (of the simulated clock), and the share of the devices' time spent on work: over the whole sweep, and up
    to the last task's beginning, after which nothing is left to give out.
    """
    clock = JumpingClock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now
    nodes = [float(GPUS_PER_NODE)] * (devices // GPUS_PER_NODE) if device == "num_gpus" else [float(devices)]
    cluster = SimulatedCluster(free=nodes, start_s=start_s)
    store = SimulatedStore(root=Path("nowhere"))
    remote = SimulatedRemote(cluster=cluster, store=store, device=device)
    with ExitStack() as played:
        instead = {"execute_remotely": remote, "execute_shard_remotely": remote, "WATCH_EVERY_S": NEVER}
        for name, value in instead.items():
            played.enter_context(patch.object(scheduler_module, name, value))
        played.enter_context(patch("asyncio.to_thread", _at_once))
        played.enter_context(patch("ray.get_runtime_context"))
        cpus, gpus = (devices, 0) if device == "num_cpus" else (8 * devices, devices)
        scheduler = scheduler_module.StageScheduler.__ray_metadata__.modified_class(store, RESOURCES, cpus, gpus)
        try:
            loop.run_until_complete(_drive(scheduler.ensure, trials, slots))
        finally:
            scheduler.watching.cancel()
            loop.run_until_complete(asyncio.gather(scheduler.watching, return_exceptions=True))
            loop.close()
    at, busy = cluster.begun[-1]
    return {
        "hours": clock.now / HOUR,
        "busy": cluster.busy / (devices * clock.now),
        "busy_to_last_begin": busy / (devices * at) if at else float("nan"),  # all began at once
    }


async def _at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


async def _drive(ensure: Callable[[Stage], Any], trials: list[list[Stage]], slots: int) -> None:
    """What the trials' drivers do: each holds a slot and asks for its stages one after the other."""
    free = asyncio.Semaphore(slots)

    async def trial(stages: list[Stage]) -> None:
        async with free:
            for stage in stages:
                await ensure(stage)

    await asyncio.gather(*(trial(stages) for stages in trials))


def paper_sized(recipes: int, seeds: int, rng: random.Random) -> list[list[Stage]]:
    """Trials as large as a FaceScrub table's: 530 classes. The hours are assumptions, since no table ran on a GPU.

    Training 1 to 1.6 h on a GPU; 4 to 6 min on half a GPU for each class (18 to 26 GPU-hours per target, against some
    60 that the authors' figures give for their code); judges a quarter of an hour each, a surrogate an hour.
    """
    return [_trial(seed, recipe, rng, HOUR, classes=530) for seed in range(seeds) for recipe in range(recipes)]


def _trial(seed: int, recipe: int, rng: random.Random, hour: float, *, classes: int) -> list[Stage]:
    def stage(name: str, seconds: float, **inputs: Stage) -> Stage:
        config = {"seconds": seconds, "seed": [seed, recipe]}
        return Stage(name=name, config={**config, "classes": classes} if name == "attack" else config, inputs=inputs)

    target = stage("target", hour * rng.uniform(1.0, 1.6))
    attack = stage("attack", hour / 60 * rng.uniform(4.0, 6.0), target=target)
    reconstructions = stage("loot", hour / 20, attack=attack)
    judges = [
        stage(name, hour / 4, reconstructions=reconstructions)
        for name in ("judge_evaluator", "judge_embedder", "judge_fidelity")
    ]
    return [target, attack, reconstructions, *judges, stage("knowledge", hour, reconstructions=reconstructions)]


def small(trials: int, rng: random.Random) -> list[list[Stage]]:
    """Seconds-long trials of `sleep` stages, the same on the simulated cluster and on Ray; one CPU is one device."""
    made = []
    for number in range(trials):
        training = {"classes": 1, "seconds": rng.uniform(3.0, 5.0), "seed": number}
        attack = {"classes": 24, "seconds": rng.uniform(0.8, 1.2), "seed": number}
        first = Sleep(config=training)
        made.append([first, Sleep(config=attack, inputs={"target": first})])
    return made


def on_ray(trials: list[list[Stage]], devices: int, slots: int) -> dict[str, float]:
    """The same on a local Ray with so many logical CPUs: seconds, and the share of their time spent on work."""
    import ray

    from smoothsweep.orchestrator.cluster import local_ray
    from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler

    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder:
        local_ray.start(num_cpus=devices)
        try:
            scheduler = StageScheduler.remote(LocalStore(root=Path(folder)), RESOURCES, devices, 0)
            warm = Sleep(config={"classes": 8 * devices, "seconds": 1.0})  # workers start and load torch
            ray.get(scheduler.ensure.remote(warm))
            started = time.monotonic()
            asyncio.run(_drive(lambda stage: scheduler.ensure.remote(stage), trials, slots))
            seconds = time.monotonic() - started
        finally:
            local_ray.stop()
    work = sum(stage.config["seconds"] * stage.config["classes"] for stages in trials for stage in stages)
    return {"seconds": seconds, "busy": work / (devices * seconds)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=int, nargs="*", default=[4, 8, 16], metavar="DEVICES")
    options = parser.parse_args()
    print("the real scheduler beside the simulation, sleep stages of seconds, two trials open per device")
    for devices in options.real:
        trials = small(4 * devices, random.Random(devices))
        real = on_ray(trials, devices, 2 * devices)
        played = simulate(trials, devices=devices, slots=2 * devices, device="num_cpus", start_s=0.0)
        took = f"({real['seconds']:.0f} s)"
        print(f"  {devices:>3} devices: busy {real['busy']:.3f} on Ray {took}, {played['busy']:.3f} simulated")
    for recipes, seeds, gpus in ((8, 3, GPUS_PER_NODE), (12, 3, GPUS), (120, 3, GPUS)):
        print(f"{recipes} recipes x {seeds} seeds on {gpus} simulated GPUs, {TASK_START_S:.0f} s to start a task")
        for share in SLOTS_PER_GPU:
            trials = paper_sized(recipes, seeds, random.Random(0))
            slots = int(share * gpus)
            found = simulate(trials, devices=gpus, slots=slots, device="num_gpus", start_s=TASK_START_S)
            to_last = f"{found['busy_to_last_begin']:.3f} to the last begin"
            print(f"  {slots:>4} trials open: busy {found['busy']:.3f}, {to_last}, {found['hours']:.0f} h")


if __name__ == "__main__":
    main()
