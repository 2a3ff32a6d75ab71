"""A trial's settings as a flat mapping, dotted key -> value, with the defaults that null stands for filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smoothsweep.core.data.names import NAMED_IN_SWEEPS, PUBLISHED_NAMES
from smoothsweep.core.judges.base import ClassifierJudge
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT

if TYPE_CHECKING:
    from smoothsweep.sweeps.data import Data
    from smoothsweep.sweeps.schema import InversionSweep

TRAININGS = ("recipe", *(f"judges.{name}" for name, kind in JUDGES.items() if issubclass(kind, ClassifierJudge)))

OF_TRAINING = {  # null -> what it stands for, with the choice that it belongs to (core.models.recipe.TrainingRecipe)
    "betas": ([0.9, 0.999], "optimizer", "adam"),
    "momentum": (0.0, "optimizer", "sgd"),
    "lr_milestones": ([0.75, 0.9], "lr_schedule", "multistep"),
    "lr_factor": (0.1, "lr_schedule", "multistep"),
    "lr_min": (0.0, "lr_schedule", "cosine"),
    "transform_input": (False, "architecture", TRANSFORMS_INPUT),
    "precision": ("fp32", None, None),
}

OF_ATTACK = {"precision": "fp32"}

CLASSES = {name: PUBLISHED_NAMES[name].classes[0] for name in NAMED_IN_SWEEPS}
"""The paper's number of people, breeds or things in each of its data sets."""


def classes_of(data: Data) -> int | None:
    """How many classes the data have, at most if a published set may be incomplete; None if only the files tell."""
    return data.classes_known or CLASSES.get(data.kind)


def resolved(settings: InversionSweep) -> dict[str, Any]:
    """Every leaf of the settings. Lists are leaves; so is the schedule of a defense, `recipe.defense.schedule`.

    A part that is absent is a leaf with None; of a classifier brought in only `imported` is a leaf.
    """
    leaves = _leaves(settings.model_dump(mode="json"), "")
    for part in TRAININGS:
        for name, (value, chooser, choice) in OF_TRAINING.items():
            chosen = chooser is None or leaves.get(f"{part}.{chooser}") == choice
            if leaves.get(f"{part}.{name}", ...) is None and chosen:
                leaves[f"{part}.{name}"] = value
    for name, value in OF_ATTACK.items() if settings.attack is not None else ():
        if leaves.get(f"attack.{name}") is None:
            leaves[f"attack.{name}"] = value
    if published := PUBLISHED_NAMES.get(leaves["data.kind"]):
        usual = {"data.classes": published.classes[0], "data.pictures": published.pictures}
        leaves |= {name: value for name, value in usual.items() if leaves[name] is None}
    if settings.recipe.poison is not None:
        poison = settings.recipe.poison.built
        parameters = ("size", poison.side) if poison.kind == "badnets" else ("strength", poison.opacity)
        leaves[f"recipe.poison.{parameters[0]}"] = parameters[1]
    defense = settings.recipe.defense
    if defense is not None:
        leaves = {key: value for key, value in leaves.items() if not key.startswith("recipe.defense.")}
        resolved_defense = defense.resolved(settings.protocol)
        parameters = resolved_defense.pop("parameters", {})
        for name in ("revision", "plugin"):  # which computation it is, no setting
            resolved_defense.pop(name, None)
        leaves |= {f"recipe.defense.{name}": value for name, value in (resolved_defense | parameters).items()}
        if defense.usual_readouts and leaves.get("attack.readout", ...) is None:
            leaves["attack.readout"] = defense.usual_readouts[settings.protocol]
    return leaves


def _leaves(node: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, Mapping):
            leaves |= _leaves(value, f"{prefix}{name}.")
        else:
            leaves[prefix + name] = value
    return leaves
