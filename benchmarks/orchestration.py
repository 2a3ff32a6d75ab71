"""What orchestration itself costs: commands, plans, empty class tasks, cached sweeps, an attack on two cores.

python -m benchmarks.orchestration
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import ray
import yaml

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.cluster.connection import connect, stop_ray
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler, execute_shard_remotely
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

QUICKSTART = Path(__file__).resolve().parent.parent / "sweeps" / "quickstart.yaml"
ATTACKS = ("poincare", "cross_entropy")
EMPTY_CLASSES, PLANNED_TRIALS = 2000, (1000, 5000)


def measure() -> dict[str, float]:
    """Seconds, MiB of peak memory (and one ratio) by name."""
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder:
        return {
            "help_s": _command("--help"),
            **_plans(Path(folder)),
            **_empty_classes(Path(folder) / "empty"),
            **_cached_sweep(Path(folder)),
            **_two_attack_tasks(Path(folder) / "attack"),
        }


def _command(*arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "smoothsweep", *arguments], check=True, capture_output=True)
    return time.perf_counter() - started


def _plans(folder: Path) -> dict[str, float]:
    """Grids of ever more trials, planned in a process of its own: wall clock and peak resident memory.

    `seeded` has five seeds of each recipe; `recipes` has as many recipes as trials, which shares the least.
    """
    figures = {}
    for trials, (name, seeds) in product(PLANNED_TRIALS, (("seeded", 5), ("recipes", 1))):
        what = f"plan_{trials}_trials_{name}"
        figures[f"{what}_s"], figures[f"{what}_peak_mib"] = _plan(folder, trials, seeds)
    return figures


def _plan(folder: Path, trials: int, seeds: int) -> tuple[float, float]:
    alphas = [round(-0.0001 * i, 4) for i in range(trials // seeds // len(ATTACKS))]
    grid = {"recipe.defense.alpha": alphas, "attack.loss": list(ATTACKS)}
    changed = {"seeds": list(range(1, seeds + 1)), "baseline": {}, "grid": grid}
    settings = yaml.safe_load(QUICKSTART.read_text()) | changed
    sweep = folder / "plan.yaml"
    sweep.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "smoothsweep", "plan", str(sweep), "--store", str(folder / "none"), "--json"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        planned = json.loads(process.stdout.read())["trials"]
        _, status, used = os.wait4(process.pid, 0)  # the memory of this process, not the largest of all so far
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode or planned != trials:
        raise RuntimeError(f"plan: expected {trials} trials, got {planned} (exit code {process.returncode})")
    return seconds, used.ru_maxrss / 1024


def _empty_classes(root: Path) -> dict[str, float]:
    """Classes of no work through the scheduler: one class per task, which is the dearest cut."""
    facts, store = connect(None, None), Store(root=root)
    resources = {"classes_per_task": 1, "cpus_per_task": 1, "gpus_per_training": 1, "gpus_per_task": 1}
    scheduler = StageScheduler.remote(store, resources, facts.cpus, facts.gpus)
    ray.get(scheduler.ensure.remote(Sleep(config={"classes": 10, "seconds": 0})))  # workers start
    started = time.perf_counter()
    ray.get(scheduler.ensure.remote(Sleep(config={"classes": EMPTY_CLASSES, "seconds": 0})))
    seconds = time.perf_counter() - started
    stop_ray()
    return {f"{EMPTY_CLASSES}_empty_class_tasks_ms_each": 1000 * seconds / EMPTY_CLASSES}


def _cached_sweep(folder: Path) -> dict[str, float]:
    """The two-dimensional example, run and run again: the second time every stage is there."""
    sweep = str(QUICKSTART.parent / "toy.yaml")
    first = _command("run", sweep, "--store", str(folder / "store"))
    return {"toy_sweep_s": first, "toy_sweep_cached_s": _command("run", sweep, "--store", str(folder / "store"))}


def _two_attack_tasks(root: Path) -> dict[str, float]:
    """The same attack with one task at a time and with two: work is equal, so the ratio is the speed-up."""
    trial = trials_of(load_sweep(QUICKSTART, ["recipe.epochs=1", "judges={}"]))[0]
    stages, store = inversion_stages(trial.settings, trial.seed), Store(root=root)
    for source in stages.attack.inputs.values():
        execute_with_inputs(store, source)
    facts = connect(None, None)
    submit = execute_shard_remotely.options(num_cpus=1)
    ray.get([submit.remote(store, stages.attack, [], _untold) for _ in range(facts.cpus)])  # workers start, torch loads
    halves = [list(range(0, 16)), list(range(16, 32)), list(range(32, 48))]
    one = _timed(lambda: [ray.get(submit.remote(store, stages.attack, half, _untold)) for half in halves[:1]])
    two = _timed(lambda: ray.get([submit.remote(store, stages.attack, half, _untold) for half in halves[1:]]))
    stop_ray()
    return {"attack_16_classes_one_task_s": one, "attack_32_classes_two_tasks_s": two, "attack_speedup": 2 * one / two}


def _untold(*, clock: bool = True) -> None:
    """What a task tells its scheduler when it starts, where there is none."""


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores")
    for name, value in measure().items():
        print(f"{name:<40} {value:10.3f}")
