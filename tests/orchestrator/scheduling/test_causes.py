"""What a failure line says of Ray's own errors: plain words, whatever wraps them."""

import pytest
import ray

from smoothsweep.orchestrator.scheduling.worker import LACK_OF_MEMORY, one_line

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
