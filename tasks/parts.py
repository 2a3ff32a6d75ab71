"""The parts of attacks: what an attack needs once before it inverts classes, each an artifact of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.kept_networks import load_network, save_network
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.view import View
from smoothsweep.core.attacks.training_settings import NETWORKS, check_imported
from smoothsweep.tasks.attacking import OpenTarget, attack_inputs_of
from smoothsweep.tasks.class_names import class_names_of
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT = "checkpoint.pt"


def make_part(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the part's tensors and networks into files of their names.

    Returns its facts, and how often it asked the target: over all attempts, where it goes on from a state it kept.

    config: part (a row of PARTS), image_size (of the target's input); of one that is imported, content and path of a
    folder of networks; else settings, protocol where it reaches the part (`PartKind.told_protocol`), how networks run.
    """
    kind = PARTS[config["part"]]
    if "content" in config:
        return adopt_networks(config, inputs, out)
    target = OpenTarget(inputs.get("target"), config, context.device)
    view = target.view(kind.access if "target" in inputs else "none")
    part_inputs = attack_inputs_of(tuple(inputs), config, inputs, context.device)
    part_context = WorkFolder(context, view)
    made = kind.function()(config["settings"], part_inputs, view, part_context)
    for name, tensor in made.tensors.items():
        save_tensors(out / f"{name}.safetensors", {name: tensor.detach().cpu().contiguous()})
    for name, network in made.networks.items():
        save_network(network, out, name)
    query_metric = {"queries": float(part_context.queries)} if "target" in inputs else {}
    return {**made.facts, **query_metric, "rows_halved": view.execution.batch_halvings}


def adopt_networks(config: Config, inputs: Inputs, out: Path) -> Metrics:
    """Writes the networks of the folder `path`, which were trained elsewhere, as if they had been made here.

    Raises InputError for networks of another part, size of images, or number of classes than the target's.
    """

    def adopt(folder: Path) -> None:
        classes = len(class_names_of(inputs)) if "target" in inputs else None
        check_imported(str(folder), config["part"], image_size=config["image_size"], classes=classes)
        for name in NETWORKS[config["part"]]:
            save_network(load_network(folder, name), out, name)

    planned(config, any_files=True).read(adopt)
    return {}


class WorkFolder:
    """A stage's work folder as an attack's `PartContext`; training counts on from a state that is read."""

    def __init__(self, context: TaskContext, view: View) -> None:
        self._context, self._view, self._shown_before = context, view, 0

    @property
    def queries(self) -> int:
        """How many images the target was shown for what is there now."""
        return self._shown_before + self._view.queries

    def last_state(self) -> dict[str, Any] | None:
        checkpoint = load_checkpoint(self._context.work / CHECKPOINT)
        if checkpoint is None:
            return None
        self._shown_before = int(checkpoint["queries"])
        return checkpoint["state"]

    def keep_state(self, state: Mapping[str, Any]) -> None:
        save_checkpoint(self._context.work / CHECKPOINT, {"state": dict(state), "queries": self.queries})
        self._context.leave_with_the_machine()

    def progress(self, fraction: float, text: str) -> None:
        self._context.progress(fraction, text)
