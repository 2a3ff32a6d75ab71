"""How long a task may take, and how an end that Ray gave it is said."""

import pytest
import ray

from smoothsweep.orchestrator.scheduling.scheduler import (
    LACK_OF_MEMORY,
    LONGEST_S,
    limit_of,
    one_line,
)
from smoothsweep.orchestrator.stages.stage import Stage

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


TRAINING = "resources.training_timeout_minutes"
LIMITS = {"training_timeout_minutes": 2, "attack_timeout_minutes": 1}


@pytest.mark.parametrize(
    ("stage", "resources", "seconds", "said"),
    [
        (
            "target",
            LIMITS,
            120.0,
            f"ran longer than {TRAINING} allows (2 min 00 s), and was ended",
        ),
        ("attack", LIMITS, 60.0, "ran longer than resources.attack_timeout_minutes allows (1 min 00 s), and was ended"),
        ("loot", LIMITS, LONGEST_S, "ran for 72 h 00 min, and was ended"),
        (
            "target",
            {},
            LONGEST_S,
            f"ran for 72 h 00 min, and was ended; {TRAINING} sets a limit of its own",
        ),
    ],
)
def test_a_task_may_take_as_long_as_the_sweep_file_says_of_its_kind(stage, resources, seconds, said):
    assert limit_of(Stage(name=stage, config={}), resources) == (seconds, said)
