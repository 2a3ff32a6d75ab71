"""One training worker against two under Ray Train: time, and how far the results drift apart.

The global batch, its order and its augmentation are the same; what differs is BatchNorm, whose statistics each CPU
worker takes over its half of the batch.   python -m benchmarks.workers
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks.many_recipes import QUICKSTART

EPOCHS = 12


def measure() -> dict[str, float]:
    """Seconds of each training and the differences between their curves."""
    import ray

    from smoothsweep.orchestrator.cluster.connection import connect, disconnect
    from smoothsweep.orchestrator.planning.trial import inversion_stages
    from smoothsweep.orchestrator.planning.trials import trials_of
    from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler
    from smoothsweep.orchestrator.store.local import LocalStore
    from smoothsweep.sweeps.load import load_sweep

    curves, numbers = {}, {}
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as root:
        store, facts = LocalStore(root=Path(root)), connect(None, None)
        for workers in (1, 2):
            loaded = load_sweep(QUICKSTART, [f"recipe.epochs={EPOCHS}", f"recipe.workers={workers}"])
            trial = trials_of(loaded)[0]
            stages = inversion_stages(trial.settings, trial.seed)
            scheduler = StageScheduler.remote(store, loaded.sweep.resources.model_dump(), facts.cpus, facts.gpus)
            ray.get(scheduler.ensure.remote(stages.data))
            started = time.perf_counter()
            ray.get(scheduler.ensure.remote(stages.target))
            numbers[f"{workers}_workers_s"] = time.perf_counter() - started
            numbers[f"{workers}_workers_test_acc"] = store.metrics(stages.target)["test_acc"] or 0.0
            curves[workers] = pd.read_parquet(store.path(stages.target) / "history.parquet")
        disconnect()
    difference = (curves[1]["loss"] - curves[2]["loss"]).abs()
    numbers["epoch_loss_first_difference"] = float(difference.iloc[0])
    numbers["epoch_loss_largest_difference"] = float(difference.max())
    numbers["epoch_loss_last_of_one_worker"] = float(curves[1]["loss"].iloc[-1])
    return numbers


def main() -> None:
    for name, value in measure().items():
        print(f"{name:<40} {value:10.4f}")


if __name__ == "__main__":
    main()
