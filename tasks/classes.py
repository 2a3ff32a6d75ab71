"""How classes are cut into pieces of work, and the files that finished classes leave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tasks.context import Config, Inputs

CLASSES_FILE = "classes.json"


def classes_to_do(config: Config, inputs: Inputs) -> list[int]:
    """The classes of a sharded stage: a number in its configuration, or the list its candidates were found for."""
    if "candidates" in inputs:
        return json.loads((inputs["candidates"] / CLASSES_FILE).read_text())
    return list(range(config["classes"]))


def class_file(work: Path, target_class: int) -> Path:
    """Where a finished class lies until the stage is collected."""
    return work / "classes" / f"{target_class:06d}.safetensors"


def remaining(classes: Sequence[int], work: Path) -> list[int]:
    """The classes not yet done, in order."""
    done = {path.name for path in (work / "classes").glob("*.safetensors")}
    return [c for c in classes if class_file(work, c).name not in done]


def groups(classes: Sequence[int], *, devices: int, per_task: int | None) -> list[list[int]]:
    """Cut classes into consecutive groups: `per_task` each, or so that every device gets about four groups.

    Results do not depend on the cut; small groups share the work evenly and lose little when a worker dies.
    """
    size = per_task or max(1, -(-len(classes) // (4 * max(1, devices))))
    return [list(classes[i : i + size]) for i in range(0, len(classes), size)]
