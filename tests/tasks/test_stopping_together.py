"""Two Ray Train workers that stop at a test accuracy leave the loop together, also after one of them was lost."""

import threading
import time

import pandas as pd
import psutil
import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import AccuracyNotReached
from smoothsweep.orchestrator.cluster import local_ray
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import target_stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep

GOAL = 0.35  # of sixteen test images; reached in the fifth epoch
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def two_cpus():
    local_ray.start(num_cpus=2, object_store_memory=100 * 2**20)
    yield
    local_ray.stop()


def stage(tmp_path, goal, **recipe):
    raw = tiny_sweep(judges={}, grid={}, baseline={})
    raw["recipe"] |= {"workers": 2, "epochs": 12, "stop_at_test_acc": goal, **recipe}
    (tmp_path / "stop.yaml").write_text(yaml.safe_dump(raw))
    return target_stage(expand(load_sweep(tmp_path / "stop.yaml"))[0].settings, 1)


def epochs_until(goal, store, target):
    """Train; how many epochs it took to reach the goal, which no epoch before did."""
    execute_with_inputs(store, target)
    history = pd.read_parquet(store.path(target) / "history.parquet")
    reached = (history["test_acc"] >= goal).tolist()
    assert reached == [False] * (len(reached) - 1) + [True] and len(reached) < 12
    return len(reached)


def kill_a_worker_after_a_checkpoint(store):
    """In the background: one of the two, once the group has left its first checkpoint."""
    while not any(store.root.glob("target/*.work/ray_train/checkpoint_*")):
        time.sleep(0.02)
    workers = [p for p in psutil.Process().children(recursive=True) if "RayTrainWorker" in "".join(p.cmdline()[:1])]
    workers[0].kill()
    killed.append(workers[0].pid)


killed = []


@pytest.mark.parametrize("checkpoint_every", [1, 5])  # 5: the goal falls on an epoch that leaves a checkpoint
def test_the_group_ends_with_the_epoch_that_reaches_the_goal(two_cpus, tmp_path, checkpoint_every):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    assert epochs_until(GOAL, store, stage(tmp_path, GOAL, checkpoint_every=checkpoint_every)) == 5


def test_a_group_that_lost_a_worker_ends_with_the_same_epoch(two_cpus, tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    killer = threading.Thread(target=kill_a_worker_after_a_checkpoint, args=[store], daemon=True)
    killer.start()
    assert epochs_until(GOAL, store, stage(tmp_path, GOAL)) == 5
    assert killed


def test_a_goal_out_of_reach_ends_the_group_with_that_cause(two_cpus, tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    with pytest.raises(AccuracyNotReached, match="expected a test accuracy of 1"):
        execute_with_inputs(store, stage(tmp_path, 1.0, epochs=2))
