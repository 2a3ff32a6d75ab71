"""What runs in Ray's workers: a stage, or some classes of one, between reporting in and leaving with the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import ray

from smoothsweep.core.same_code import only_this_code
from smoothsweep.orchestrator.scheduling.draining import leaving_check
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.scheduling.tasks_in_flight import StartReporter
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.context import MachineLeaving, ask_machine_leaving

WORKER_RETRIES = 3  # for killed workers and lost nodes; an exception of the task itself is not retried


@ray.remote(max_retries=WORKER_RETRIES)
def execute_remotely(store: Store, stage: Stage, tell: StartReporter, code: str | None = None) -> None:
    with only_this_code(code):
        if not is_group(stage):
            with _at_work(stage, tell):
                return execute(store, stage)
        from smoothsweep.tasks.ray_train import announcing  # two seconds of imports that other stages do not need

        tell(clock=False)  # the workers' devices are still to come
        with announcing(tell):
            return execute(store, stage)


@ray.remote(max_retries=WORKER_RETRIES)
def execute_shard_remotely(
    store: Store, stage: Stage, classes: list[int], tell: StartReporter, code: str | None = None
) -> int:
    with only_this_code(code), _at_work(stage, tell):
        return execute_shard(store, stage, classes)


@contextlib.contextmanager
def _at_work(stage: Stage, tell: StartReporter) -> Generator[None]:
    """Load torch and the stage's code (minutes on a cold network disk, which are not the work's time), then report."""
    leaves = leaving_check(ray.get_runtime_context().get_node_id())
    if leaves():  # given to us before the news was everywhere
        raise MachineLeaving
    import torch  # noqa: F401

    stage.task.function()
    tell()
    with ask_machine_leaving(leaves):
        yield


def is_group(stage: Stage) -> bool:
    """Whether the stage is done by a group of Ray Train workers."""
    return stage.config.get("workers", 1) > 1
