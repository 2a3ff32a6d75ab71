"""Kill -9 of the driver in every stage, of a training worker, of an attack task: the same command, the same table."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from tiny import write_tiny

from orchestrator.results import TIME_COLUMNS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

STAGES = (
    "data", "public", "prior", "pool", "target", "candidates", "attack", "loot", "embeddings", "judge_evaluator",
    "judge_embedder", "knowledge",
)  # fmt: skip
ENVIRONMENT = {**os.environ, "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
PATIENCE_S = 240


def start(sweep: Path, store: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "orchestrator", "run", str(sweep), "--store", str(store)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(sweep: Path, store: Path) -> None:
    process = start(sweep, store)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors


def table(store: Path) -> pd.DataFrame:
    return pd.read_parquet(store / "sweeps" / "tiny" / "results.parquet").drop(columns=list(TIME_COLUMNS))


def in_progress(store: Path, stage: str) -> bool:
    return any((store / stage).glob("*.work")) or any((store / stage).glob(".*"))


def wait_for(condition, process: subprocess.Popen) -> bool:
    """True once the condition holds; False if the process ended before."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    raise TimeoutError


def forget_from(store: Path, stage: str) -> None:
    """Remove the artifacts of this stage and all later ones: it ran too fast to be caught."""
    for later in STAGES[STAGES.index(stage) :]:
        shutil.rmtree(store / later, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(write_tiny(folder), folder / "store")
    return table(folder / "store")


def check_whole(store: Path, undisturbed: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(table(store), undisturbed)
    assert not list(store.glob("*/*.work")) and not [p for p in store.glob("*/.*") if p.is_dir()]
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    client = MlflowClient(f"sqlite:///{store}/mlflow.db")
    experiments = [e.experiment_id for e in client.search_experiments() if e.name == "tiny"]
    runs = client.search_runs(experiments, run_view_type=ViewType.ALL)
    assert len(runs) == 1 + len(undisturbed) and {r.info.status for r in runs} == {"FINISHED"}
    for run in runs:
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            assert len(history) == len({m.step for m in history}), key


def test_the_driver_killed_once_in_every_stage(undisturbed, tmp_path):
    sweep, store = write_tiny(tmp_path), tmp_path / "store"
    killed_in = []
    for stage in STAGES:
        for _ in range(3):
            process = start(sweep, store)
            caught = wait_for(lambda stage=stage: in_progress(store, stage), process)
            process.kill()
            process.wait()
            if caught:
                killed_in.append(stage)
                break
            forget_from(store, stage)
    assert len(killed_in) >= 10, killed_in
    finish(sweep, store)
    check_whole(store, undisturbed)


@pytest.mark.parametrize("stage", ["target", "attack", "knowledge"])
def test_a_worker_killed_in_the_middle_of_its_stage(undisturbed, tmp_path, stage):
    sweep, store = write_tiny(tmp_path), tmp_path / "store"
    process = start(sweep, store)
    assert wait_for(lambda: in_progress(store, stage), process)
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if any("execute_" in part for part in child.cmdline())
    ]
    assert workers
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    check_whole(store, undisturbed)


def test_two_training_workers_survive_the_loss_of_one(tmp_path):
    """Ray Train restarts the group from its last checkpoint; the numbers are those of the undisturbed training."""
    changes = {"grid": {"recipe.workers": [2]}, "baseline": {}, "judges": {}}
    sweep = write_tiny(tmp_path, **changes)
    finish(sweep, tmp_path / "calm")
    store = tmp_path / "store"
    process = start(sweep, store)
    assert wait_for(lambda: any(store.glob("target/*.work/ray_train/checkpoint_*")), process)
    victims = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if any("RayTrainWorker" in part for part in child.cmdline())
    ]
    assert victims
    os.kill(victims[0].pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    pd.testing.assert_frame_equal(table(store), table(tmp_path / "calm"))
