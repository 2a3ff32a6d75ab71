"""How long a task may take, when its silence is told, and how an end that Ray gave it is said."""

import json

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.scheduling.tasks_in_flight import (
    FLOOR_S,
    QUIET_S,
    QUIET_TIMES,
    TIMES,
    UNKNOWN_S,
    Heartbeat,
    Limits,
)
from smoothsweep.orchestrator.scheduling.worker import LACK_OF_MEMORY, one_line
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


def test_silence_is_told_after_five_minutes_once_and_again_when_it_has_doubled():
    signs = Heartbeat(last=0.0)
    told = [now for now in range(0, 3000, 10) if signs.is_worth_a_line(0.0, now)]
    assert told == [310, 630, 1270, 2550]


def test_what_is_usually_slow_is_given_more():
    signs = Heartbeat(last=0.0)
    for epoch in range(1, 4):
        signs.see({"text": f"epoch {epoch}"}, 200.0 * epoch)
    assert not signs.is_worth_a_line(0.0, 600 + QUIET_TIMES * 200)
    assert signs.is_worth_a_line(0.0, 601 + QUIET_TIMES * 200)


@given(st.lists(st.floats(0.1, 200.0), min_size=1, max_size=30))
def test_work_that_keeps_its_pace_is_never_called_silent(gaps):
    signs, now = Heartbeat(last=0.0), 0.0
    for number, gap in enumerate(gaps):
        assert not signs.is_worth_a_line(0.0, now + min(gap, QUIET_S))
        now += gap
        signs.see(number, now)


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


def test_the_sweep_files_own_limit_counts_from_the_start_whatever_was_measured(store):
    limit = Limits(store, {**NONE, "training_timeout_minutes": 2}).of(TARGET, 1e6)
    assert (limit.total_s, limit.silent_s) == (120.0, None)
    assert limit.reason() == "ran longer than resources.training_timeout_minutes allows (2 min 00 s), and was ended"


@pytest.mark.parametrize(("expected", "silent"), [(None, UNKNOWN_S), (1.0, FLOOR_S), (FLOOR_S, TIMES * FLOOR_S)])
def test_the_default_is_silence_for_twenty_times_the_estimate(store, expected, silent):
    limit = Limits(store, NONE).of(TARGET, expected)
    assert (limit.total_s, limit.silent_s) == (None, silent)
    assert "no sign of life" in limit.reason() and "resources.training_timeout_minutes sets" in limit.reason()


def test_a_stage_without_a_setting_of_its_own_has_the_default_too(store):
    limits = Limits(store, {"training_timeout_minutes": 1, "attack_timeout_minutes": 1})
    limit = limits.of(Stage(name="loot", config={}), None)
    assert (limit.total_s, limit.silent_s, limit.setting) == (None, UNKNOWN_S, None)
    assert limits.of(Sleep(config={}), None).setting == "resources.attack_timeout_minutes"


def test_the_estimate_is_the_longest_of_its_like_on_a_like_device(store):
    measured(store, 100.0)
    measured(store, 300.0)
    assert Limits(store, NONE).expected_s(TARGET, "cpu") == 300.0
    assert Limits(store, NONE).expected_s(TARGET, "cuda") is None, "a GPU's seconds say nothing about a CPU's"
    measured(store, 5.0, "cuda")
    assert Limits(store, NONE).expected_s(TARGET, "cpu") is None, "nor do measurements of both"
