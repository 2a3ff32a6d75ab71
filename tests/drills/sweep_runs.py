"""The sweep that is disturbed, the command that runs it, and what it left in its store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from drills.emulated import PATIENCE_S, wait_until
from mlflow import MlflowClient
from mlflow.entities import ViewType
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.judges.columns import TIME_COLUMNS

STAGES = (
    "data",
    "public",
    "prior",
    "pool",
    "target",
    "candidates",
    "attack",
    "loot",
    "embeddings",
    "judge_evaluator",
    "judge_embedder",
    "knowledge",
)
EPOCHS = 6
LOG = "driver.log"


def write_sweep(folder: Path, **changes: Any) -> Path:
    """The tiny sweep with stages long enough to be hit: a few seconds of training, a second for a class."""
    plain = tiny_sweep()
    folder.mkdir(parents=True, exist_ok=True)
    return write_tiny(
        folder,
        **{
            "recipe": {**plain["recipe"], "epochs": EPOCHS},
            "data": {**plain["data"], "train_per_class": 12},
            "attack": {**plain["attack"], "steps": 12},
            "resources": {"classes_per_task": 1},
            **changes,
        },
    )


class SweepRun:
    """`smoothsweep run` on a store, in a process of its own whose output goes to a file beside the store."""

    def __init__(
        self, sweep: Path, store: Path, address: str | None, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        self.store = store
        self.log = store.parent / LOG
        command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(store), "--yes", *options]
        command += ["--address", address] if address else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **(environment or {})}, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, seconds: float = PATIENCE_S) -> int:
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # else it goes on beside the drills that follow, and slows them too
            raise AssertionError(f"the run did not end within {seconds:g} s: {self.tail()}") from None

    def until(self, condition: Any) -> Any:
        """What the condition gives once it is true; an error with the log's end if the run has ended before."""

        def look() -> Any:
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended with {self.process.returncode} before its drill: {self.tail()}")
            return condition()

        return wait_until(look)

    def tail(self) -> str:
        return self.log.read_text()[-3000:]


def finish(sweep: Path, store: Path, address: str | None, *options: str) -> None:
    """The same command again, to its end."""
    run = SweepRun(sweep, store, address, *options)
    assert run.wait() == 0, run.tail()


def table(store: Path) -> pd.DataFrame:
    """results.parquet without the times."""
    return pd.read_parquet(store / "sweeps" / "tiny" / "results.parquet").drop(columns=list(TIME_COLUMNS))


def partly_done(done: Path, store: Path, first_missing: str) -> None:
    """A copy of a finished store as it was before this stage: what comes earlier need not be made again."""
    shutil.copytree(done, store, ignore=shutil.ignore_patterns("mlflow.db*", "mlartifacts", "sweeps", "*.log"))
    for stage in STAGES[STAGES.index(first_missing) :]:
        shutil.rmtree(store / stage, ignore_errors=True)


def recorded(uri: str, experiment: str = "tiny") -> list[tuple[str, str, tuple[tuple[str, int], ...]]]:
    """Every MLflow run as (name, status, number of points per metric), in order; a point recorded twice is an error."""
    client = MlflowClient(uri)
    ids = [found.experiment_id for found in client.search_experiments() if found.name == experiment]
    rows = []
    for run in client.search_runs(ids, run_view_type=ViewType.ALL):
        points = []
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            assert len(history) == len({point.step for point in history}), f"{run.info.run_name}: {key} twice"
            points.append((key, len(history)))
        rows.append((run.info.run_name or "", run.info.status, tuple(sorted(points))))
    return sorted(rows)


def local_tracking(store: Path) -> str:
    return f"sqlite:///{store}/mlflow.db"


def stray_files(store: Path) -> list[str]:
    """What a finished store must not hold: work folders, drafts, half-written files."""
    work = [*store.glob("*/*.work"), *store.glob("*/.*"), *store.glob(".*"), *store.glob("sweeps/*/.*")]
    return [str(path.relative_to(store)) for path in work]


def temporary_folder(prefix: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=prefix))
