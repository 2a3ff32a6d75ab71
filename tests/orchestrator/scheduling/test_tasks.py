"""How long a task may take, and how an end that Ray gave it is said."""

import json

import pytest
import ray

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.scheduling.scheduler import (
    FLOOR_S,
    LACK_OF_MEMORY,
    TIMES,
    UNKNOWN_S,
    limit_of,
    one_line,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.store.opening import open_store

RAYS_WORDS = (
    "Task was killed due to the node running low on memory.\nMemory on the node (IP: 172.31.4.9, ID: 0a1b) where "
    "the task (task ID: ffff, name=execute_remotely, pid=4711) was running was 30.2GB / 31.1GB, which exceeds "
    "the memory usage threshold of 0.95."
)


def wrapped(error):
    try:
        try:
            raise error
        except Exception as inner:
            raise RuntimeError("a training with several workers failed") from inner
    except RuntimeError as outer:
        return outer


def actor_died():
    error = ray.exceptions.ActorDiedError()
    error.error_msg = f"The actor died unexpectedly before finishing this task. {RAYS_WORDS}"
    error.args = (error.error_msg,)
    return error


@pytest.mark.parametrize(
    "make",
    [
        lambda: ray.exceptions.OutOfMemoryError(RAYS_WORDS),
        lambda: wrapped(ray.exceptions.OutOfMemoryError(RAYS_WORDS)),
        actor_died,
        lambda: wrapped(wrapped(actor_died())),
    ],
)
def test_a_worker_that_ray_ended_for_memory_is_said_in_plain_words(make):
    said = one_line(make())
    assert said == LACK_OF_MEMORY and said.startswith("out of memory: ") and "\n" not in said


@pytest.mark.parametrize(
    "error",
    [
        ray.exceptions.WorkerCrashedError(),
        ray.exceptions.ActorDiedError(),
        ValueError("x"),
        RuntimeError("CUDA out of memory. Tried 2 GiB"),
    ],
)
def test_other_ends_are_not_taken_for_it(error):
    assert one_line(error) != LACK_OF_MEMORY


TARGET = Stage(name="target", config={"architecture": "resnet_small", "epochs": 3, "workers": 1})
NONE = {"training_timeout_minutes": None, "attack_timeout_minutes": None}


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def measured(store, seconds: float, device: str = "cpu") -> None:
    """Leave the manifest of a target like TARGET that took so long."""
    stage = Stage(name="target", config={**TARGET.config, "seed": seconds})
    path = store.manifest_file(stage.name, stage.fingerprint)
    path.parent.mkdir(parents=True)
    content = {**stage.identity(), "fingerprint": stage.fingerprint, "seconds": seconds, "device": device}
    content |= {"metrics": {}, "files": {}, "finished_at": 1.0, "code_version": "test"}
    path.write_text(json.dumps(sealed(content)))


def test_the_sweep_files_own_limit_counts_whatever_was_measured(store):
    measured(store, 1e6)
    limit = limit_of(TARGET, "cpu", History(store), {**NONE, "training_timeout_minutes": 2})
    reason = "ran longer than resources.training_timeout_minutes allows (2 min 00 s), and was ended"
    assert limit == (120.0, reason)


@pytest.mark.parametrize("took, seconds", [((), UNKNOWN_S), ((1.0,), FLOOR_S), ((100.0, FLOOR_S), TIMES * FLOOR_S)])
def test_the_default_is_twenty_times_the_longest_of_its_like(store, took, seconds):
    for each in took:
        measured(store, each)
    limit = limit_of(TARGET, "cpu", History(store), NONE)
    assert limit.seconds == seconds and "resources.training_timeout_minutes sets" in limit.reason


def test_a_stage_without_a_setting_of_its_own_has_the_default_too(store):
    given = History(store), {"training_timeout_minutes": 1, "attack_timeout_minutes": 1}
    limit = limit_of(Stage(name="loot", config={}), "cpu", *given)
    assert limit.seconds == UNKNOWN_S and "timeout_minutes" not in limit.reason
    assert limit_of(Sleep(config={}), "cpu", *given).seconds == 60.0


def test_the_estimate_is_of_a_like_device(store):
    measured(store, FLOOR_S)
    assert limit_of(TARGET, "cuda", History(store), NONE).seconds == UNKNOWN_S, (
        "a GPU's seconds say nothing about a CPU's"
    )
    measured(store, 5.0, "cuda")
    assert limit_of(TARGET, "cpu", History(store), NONE).seconds == UNKNOWN_S, "nor do measurements of both"
