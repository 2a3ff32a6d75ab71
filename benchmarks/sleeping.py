"""A kind of stage that only waits: what orchestration itself costs, measured without any science in the way.

It is known wherever this file is imported, also to workers: who unpickles a `Sleep` imports its class from here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.classes import class_file, classes_of_stage
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.registry import TASKS, Task

TASKS["sleep"] = Task(
    version=1, run="benchmarks.sleeping:collect", shard="benchmarks.sleeping:sleep_classes", on_device=False
)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Sleep(Stage):
    """config: `classes`, how many, and `seconds`, how long each of them takes."""

    name: str = "sleep"


def sleep_classes(config: Config, inputs: Inputs, classes: Sequence[int], context: TaskContext) -> None:
    """Wait config['seconds'] for each class and leave its file."""
    paths = [class_file(context.work, target_class) for target_class in classes]
    for path in (path for path in paths if not path.exists()):
        context.leave_with_the_machine()
        time.sleep(config["seconds"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def collect(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Count the files of the finished classes."""
    sleep_classes(config, inputs, classes_of_stage(config, 0), context)
    return {"classes": float(len(classes_of_stage(config, 0)))}
