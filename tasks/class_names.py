"""Whose classes an artifact is about: names in the order of the labels, beside the data and whatever is made from them.

A label is a number; which person it means is said by names.json alone. Every stage with labelled inputs is called
through here, so that two artifacts meet only if they number the same people alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext

NAMES_FILE = "names.json"

Shard = Callable[[Config, Inputs, Sequence[int], TaskContext], Any]
Whole = Callable[[Config, Inputs, Path, TaskContext], Metrics]


def check_same_classes(labelled: Mapping[str, Path]) -> tuple[str, ...]:
    """The class names, in the order of the labels, that all these artifacts share. labelled: input -> its folder.

    Raises InputError, one line with the first class that differs, and for an artifact without names.
    """
    (first, folder), *others = labelled.items()
    names = _names_in(first, folder)
    for other, folder in others:
        _refuse_other_classes(first, names, other, _names_in(other, folder))
    return names


def class_names_of(inputs: Inputs) -> tuple[str, ...]:
    """The class names that an attack's inputs share: those of its target, or of the data where it sees no target."""
    name = "target" if "target" in inputs else "data"
    return _names_in(name, inputs[name])


def with_same_classes(run: Whole, labelled: Sequence[str]) -> Whole:
    """A stage's function that first compares the classes of its inputs named in `labelled`, then hands them on.

    Inputs that a stage can do without are compared where they are given.
    """

    @wraps(run)
    def checked(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
        names = check_same_classes(_labelled_folders(inputs, labelled))
        metrics = run(config, inputs, out, context)
        if (out / NAMES_FILE).exists():
            _refuse_other_classes(labelled[0], names, "its own artifact", _names_in("artifact", out))
        write_file(out / NAMES_FILE, json.dumps(names, ensure_ascii=False))
        return metrics

    return checked


def shard_with_same_classes(run: Shard, labelled: Sequence[str]) -> Shard:
    """As `with_same_classes`, for a part of a stage."""

    @wraps(run)
    def checked(config: Config, inputs: Inputs, classes: Sequence[int], context: TaskContext) -> Any:
        check_same_classes(_labelled_folders(inputs, labelled))
        return run(config, inputs, classes, context)

    return checked


def _labelled_folders(inputs: Inputs, labelled: Sequence[str]) -> dict[str, Path]:
    return {name: inputs[name] for name in labelled if name in inputs}


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
