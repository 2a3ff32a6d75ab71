"""Classes: how they are cut into pieces of work, the files that finished ones leave, and whom an artifact is about.

A label is a number; which person it means is said by names.json alone, beside the data and whatever is made from them.
Every stage with labelled inputs is called through here, so that two artifacts meet only if they number the same people
alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.tasks.context import Config, Inputs, TaskContext

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


NAMES_FILE = "names.json"

T = TypeVar("T")


def class_names_of(inputs: Inputs) -> tuple[str, ...]:
    """The class names that an attack's inputs share: those of its target, or of the data where it sees no target."""
    name = "target" if "target" in inputs else "data"
    return _names_in(name, inputs[name])


def with_same_classes(run: Callable[..., T], labelled: Sequence[str], *, whole: bool = True) -> Callable[..., T]:
    """A stage's function (whole) or that of a part of it, which first compares the classes of its inputs in `labelled`.

    Inputs that a stage can do without are compared where they are given. A whole stage hands the names on. Raises
    InputError, one line with the first class that differs, and for an artifact without names.
    """

    @wraps(run)
    def checked(config: Config, inputs: Inputs, part: Any, context: TaskContext) -> T:
        (first, names), *others = [(name, _names_in(name, inputs[name])) for name in labelled if name in inputs]
        for other, got in others:
            _refuse_other_classes(first, names, other, got)
        made = run(config, inputs, part, context)
        if whole:
            if (part / NAMES_FILE).exists():
                _refuse_other_classes(first, names, "its own artifact", _names_in("artifact", part))
            write_file(part / NAMES_FILE, json.dumps(names, ensure_ascii=False))
        return made

    return checked


def _names_in(name: str, folder: Path) -> tuple[str, ...]:
    try:
        return tuple(json.loads((folder / NAMES_FILE).read_text()))
    except FileNotFoundError:
        raise InputError(f"{name} {folder}: expected the names of its classes ({NAMES_FILE}), got none") from None


def _refuse_other_classes(first: str, expected: Sequence[str], other: str, got: Sequence[str]) -> None:
    if len(got) != len(expected):
        raise InputError(f"{other}: expected the {len(expected)} classes of {first}, got {len(got)}")
    for label, (name, got_name) in enumerate(zip(expected, got, strict=True)):
        if name != got_name:
            raise InputError(
                f"{other}: expected the classes of {first} in its order, got {got_name!r} as class {label}, "
                f"which is {name!r} there"
            )
