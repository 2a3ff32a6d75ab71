"""How far stages are that have been begun: epochs, steps or classes, told from what they leave in the store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.class_names import NAMES_FILE
from smoothsweep.tasks.classes import CLASSES_FOLDER, classes_of_stage, classes_without_file

_OF = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """How far a running stage is.

    Attributes:
        fraction: The fraction that is done, in [0, 1].
        words: `epoch 31 of 48`, `9 of 16 classes`; empty where the stage says nothing.
    """

    fraction: float
    words: str


def read_stage_progress(stages: Iterable[Stage], store: Store) -> dict[str, StageProgress]:
    """Fingerprint -> how far, for those of these unfinished stages that have left something. Brings no artifact here
    but the class names of what is attacked."""
    ready = [stage for stage in stages if all(store.has(source) for source in stage.inputs.values())]
    progress = {}
    for stage, mark in zip(ready, store.marks(ready), strict=True):
        known = _classes_done(stage, store) if stage.task.shard else _marked(mark)
        if known is not None:
            progress[stage.fingerprint] = known
    return progress


def classes_of(stage: Stage, store: Store) -> list[int]:
    """The classes of a sharded stage. Reads one file of one input: the others need not come to this machine."""
    labelled = next((source for name in stage.task.labelled if (source := stage.inputs.get(name))), None)
    file = store.file(labelled, NAMES_FILE) if labelled else None
    return classes_of_stage(stage.config, len(json.loads(file.read_text())) if file else 0)


def _classes_done(stage: Stage, store: Store) -> StageProgress | None:
    """What tasks of any number of machines have finished; None before the first class."""
    folder = store.kept(stage, CLASSES_FOLDER)
    if not folder:
        return None
    classes = classes_of(stage, store)
    done = len(classes) - len(classes_without_file(classes, folder))
    return StageProgress(fraction=done / len(classes), words=f"{done} of {len(classes)} classes")


def _marked(mark: dict[str, Any] | None) -> StageProgress | None:
    return None if mark is None else StageProgress(fraction=mark["fraction"], words=_OF.sub(r"\1 of \2", mark["text"]))
