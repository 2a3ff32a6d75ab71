"""How classes are cut into pieces of work, and the files that finished classes leave."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.context import Config

CLASSES_FOLDER = "classes"  # in a work folder: one file per finished class


def classes_of_stage(config: Config, num_classes: int) -> list[int]:
    """The classes of a sharded stage: those its configuration lists, so many of them, or all of `num_classes`.

    Raises InputError for a class that the data do not have.
    """
    listed = config["classes"]
    if isinstance(listed, int):
        return list(range(listed))
    classes = list(range(num_classes)) if listed == "all" else list(listed)
    if max(classes) >= num_classes:
        raise InputError(f"classes: expected labels below {num_classes}, got {max(classes)}")
    return classes


def class_name(target_class: int) -> str:
    """The name in the work folder of what a finished class left."""
    return f"{CLASSES_FOLDER}/{target_class:06d}.safetensors"


def class_file(work: Path, target_class: int) -> Path:
    """Where a finished class lies until the stage is collected."""
    return work / class_name(target_class)


def classes_without_file(classes: Sequence[int], done: Container[str]) -> list[int]:
    """The classes whose file is not among these names, in order."""
    return [c for c in classes if Path(class_name(c)).name not in done]


def batches(classes: Sequence[int], together: int = 1) -> list[list[int]]:
    """The classes, in their order, that are done at once: `together` of them, at the end what is left."""
    return [list(classes[i : i + together]) for i in range(0, len(classes), together)]


def groups(batches: Sequence[Sequence[int]], *, devices: int, per_task: int | None) -> list[list[int]]:
    """Cut batches of classes into groups: `per_task` classes each, or so that every device gets about four groups.

    Results do not depend on the cut, which lets every batch whole; small groups share the work evenly and lose little
    when a worker dies.
    """
    widest = max(map(len, batches), default=1)
    size = max(1, per_task // widest) if per_task else max(1, -(-len(batches) // (4 * max(1, devices))))
    return [[c for batch in batches[i : i + size] for c in batch] for i in range(0, len(batches), size)]
