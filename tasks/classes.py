"""How classes are cut into pieces of work, and the files that finished classes leave."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from pathlib import Path

from tasks.context import Config, Inputs

CLASSES_FILE = "classes.json"
CLASSES_FOLDER = "classes"  # in a work folder: one file per finished class


def classes_to_do(config: Config, inputs: Inputs) -> list[int]:
    """The classes of a sharded stage: a number in its configuration, or the list its candidates were found for."""
    if "candidates" in inputs:
        return json.loads((inputs["candidates"] / CLASSES_FILE).read_text())
    return list(range(config["classes"]))


def class_name(target_class: int) -> str:
    """The name in the work folder of what a finished class left."""
    return f"{CLASSES_FOLDER}/{target_class:06d}.safetensors"


def class_file(work: Path, target_class: int) -> Path:
    """Where a finished class lies until the stage is collected."""
    return work / class_name(target_class)


def remaining(classes: Sequence[int], work: Path) -> list[int]:
    """The classes not yet done, in order."""
    return remaining_beside(classes, {path.name for path in (work / CLASSES_FOLDER).glob("*.safetensors")})


def remaining_beside(classes: Sequence[int], done: Container[str]) -> list[int]:
    """The classes whose file is not among these names, in order."""
    return [c for c in classes if Path(class_name(c)).name not in done]


def groups(classes: Sequence[int], *, devices: int, per_task: int | None) -> list[list[int]]:
    """Cut classes into consecutive groups: `per_task` each, or so that every device gets about four groups.

    Results do not depend on the cut; small groups share the work evenly and lose little when a worker dies.
    """
    size = per_task or max(1, -(-len(classes) // (4 * max(1, devices))))
    return [list(classes[i : i + size]) for i in range(0, len(classes), size)]
