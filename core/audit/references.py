"""The models that an audit trains for comparison: a reference without defense, and recipes that may lower the leak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.audit.portfolio import AUGMENTATION
from smoothsweep.core.defenses.labels import recipe_words

EPOCHS = 40
"""Default epochs of every training."""

PLAIN: Mapping[str, Any] = {"kind": "label_smoothing", "alpha": 0.0}

FIXES: tuple[Mapping[str, Any], ...] = (
    {"kind": "label_smoothing", "alpha": -0.05},
    {"kind": "label_smoothing", "alpha": -0.8, "schedule": {"kind": "step", "at": 0.1}},
    {"kind": "random_erasing"},
)
"""Recipes that are said to leak less: the paper's factor and schedule, what a search over schedules found, and a rival
that costs no more than plain training and goes with every architecture (MIDRE's published setting)."""


@dataclass(frozen=True, kw_only=True)
class AuditTraining:
    """A recipe that an audit trains: the reference, or one that may lower the leak.

    Attributes:
        label: The defense in words.
        settings: The recipe, as in a sweep file.
        is_reference: Whether it has no defense.
    """

    label: str
    settings: Mapping[str, Any]
    is_reference: bool


def audit_trainings(
    architecture: str, *, image_size: int, transform_input: bool, epochs: int = EPOCHS, fix: bool
) -> tuple[AuditTraining, ...]:
    """The reference, and with `fix` the other recipes after it.

    architecture, image_size (side in pixels), transform_input: those of the model. All start from random weights.
    """
    common = {
        "architecture": architecture,
        "image_size": image_size,
        "pretrained": False,
        "epochs": epochs,
        "batch_size": 50,
        "augmentation": dict(AUGMENTATION),
    }
    if transform_input:
        common["transform_input"] = True
    return tuple(
        AuditTraining(
            label=recipe_words(defense).label,
            settings={**common, "defense": dict(defense)},
            is_reference=defense is PLAIN,
        )
        for defense in (PLAIN, *(FIXES if fix else ()))
    )
