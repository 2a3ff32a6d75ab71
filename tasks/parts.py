"""The parts of attacks: what an attack needs once before it inverts classes, each an artifact of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.attacks.given import on_cpu
from core.attacks.registry import PARTS
from tasks.attacking import OpenTarget, given_of
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import save_tensors
from tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT = "checkpoint.pt"


def make_part(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes every tensor of the part into a file of its name; returns its facts, and how often it asked the target.

    config: part (a row of PARTS), settings, image_size (of the target's input), protocol, and how networks run.
    """
    kind = PARTS[config["part"]]
    target = OpenTarget(inputs.get("target"), config, context.device)
    view = target.view(kind.access if "target" in inputs else "none")
    given = given_of(tuple(inputs), config, inputs, context.device)
    made = kind.function()(config["settings"], given, view, WorkFolder(context))
    for name, tensor in on_cpu(made.tensors).items():
        save_tensors(out / f"{name}.safetensors", {name: tensor})
    asked = {"queries": float(view.queries)} if "target" in inputs else {}
    return {**made.facts, **asked, "rows_halved": view.execution.rows_halved}


class WorkFolder:
    """`core.attacks.given.Workshop` in a stage's work folder."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def last_state(self) -> dict[str, Any] | None:
        return load_checkpoint(self._context.work / CHECKPOINT)

    def keep_state(self, state: Mapping[str, Any]) -> None:
        save_checkpoint(self._context.work / CHECKPOINT, state)

    def progress(self, fraction: float, text: str) -> None:
        self._context.progress(fraction, text)
