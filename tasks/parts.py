"""The parts of attacks: what an attack needs once before it inverts classes, each an artifact of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.attacks.given import on_cpu
from core.attacks.networks import save_network
from core.attacks.registry import PARTS
from core.attacks.view import View
from tasks.attacking import OpenTarget, given_of
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import save_tensors
from tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT = "checkpoint.pt"


def make_part(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the part's tensors and networks into files of their names.

    Returns its facts, and how often it asked the target: over all attempts, where it goes on from a state it kept.

    config: part (a row of PARTS), settings, image_size (of the target's input), protocol where it reaches the part
    (`PartKind.protocol`), and how networks run.
    """
    kind = PARTS[config["part"]]
    target = OpenTarget(inputs.get("target"), config, context.device)
    view = target.view(kind.access if "target" in inputs else "none")
    given = given_of(tuple(inputs), config, inputs, context.device)
    workshop = WorkFolder(context, view)
    made = kind.function()(config["settings"], given, view, workshop)
    for name, tensor in on_cpu(made.tensors).items():
        save_tensors(out / f"{name}.safetensors", {name: tensor})
    for name, network in made.networks.items():
        save_network(network, out, name)
    asked = {"queries": float(workshop.queries)} if "target" in inputs else {}
    return {**made.facts, **asked, "rows_halved": view.execution.rows_halved}


class WorkFolder:
    """`core.attacks.given.Workshop` in a stage's work folder; what was shown before a state that is read counts on."""

    def __init__(self, context: TaskContext, view: View) -> None:
        self._context, self._view, self._shown_before = context, view, 0

    @property
    def queries(self) -> int:
        """How many images the target was shown for what is there now."""
        return self._shown_before + self._view.queries

    def last_state(self) -> dict[str, Any] | None:
        kept = load_checkpoint(self._context.work / CHECKPOINT)
        if kept is None:
            return None
        self._shown_before = int(kept["queries"])
        return kept["state"]

    def keep_state(self, state: Mapping[str, Any]) -> None:
        save_checkpoint(self._context.work / CHECKPOINT, {"state": dict(state), "queries": self.queries})
        self._context.leave_with_the_machine()

    def progress(self, fraction: float, text: str) -> None:
        self._context.progress(fraction, text)
