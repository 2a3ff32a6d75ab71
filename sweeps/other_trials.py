"""The other trials that a trial names: whose accuracy its training stops at, whose targets do stages of its attack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.resolved import classes_of
from smoothsweep.sweeps.settings import set_dotted
from smoothsweep.sweeps.training import OtherTrial

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep

TARGET_KEYS = ("recipe", "data")
PEOPLE_KEYS = ("kind", "path", "identities", "largest_classes", "classes", "spread", "seed")
"""Keys of the data that decide who is in them; the others choose among their pictures."""
KEYS_WITHOUT_TARGET = (
    "judges",
    "search",
    "budget",
    "reaudit",
    "grid",
    "cells",
    "baseline",
    "paper",
    "min_test_acc",
    "accuracy_margin",
)


def stopping_reference(settings: InversionSweep) -> InversionSweep | None:
    """The trial whose test accuracy this one's training stops at, if its recipe names one. Raises InputError."""
    goal, key = settings.recipe.stop_at_test_acc, "recipe.stop_at_test_acc"
    if not isinstance(goal, OtherTrial):
        return None
    return _other(settings, settings.model_dump(mode="python"), {**goal.trial, key: None}, where=f"{key}.trial")


def swapped_targets(settings: InversionSweep) -> dict[str, InversionSweep]:
    """Setting of the attack, such as `sampling_target` -> the trial whose target it names, where it names one.

    Raises InputError for a key that makes no target, and for a target of another input size, number of classes, or of
    other people: what it would answer to the class under attack is another person.
    """
    roles = settings.attack.built.other_targets if settings.attack is not None else {}
    named = {role: getattr(settings.attack, role) for role in roles}
    return {role: _swapped(settings, role, other) for role, other in named.items() if other is not None}


def _swapped(settings: InversionSweep, role: str, named: OtherTrial) -> InversionSweep:
    where = f"attack.{role}.trial"
    for key in named.trial:
        if key.partition(".")[0] not in TARGET_KEYS:
            expected = f"expected keys of {' or '.join(TARGET_KEYS)}, which make a target"
            raise InputError(f"{where}: {expected}, got {quoted(key)}")
    raw = settings.model_dump(mode="python", exclude=set(KEYS_WITHOUT_TARGET))
    for swapped in settings.inverted_by.built.other_targets:
        raw["attack"][swapped] = None
    other = _other(settings, raw, named.trial, where=where)
    if other.recipe.image_size != settings.recipe.image_size:
        expected = f"expected inputs of {settings.recipe.image_size} pixels, as the attacked target has"
        raise InputError(f"{where}: {expected}, got {other.recipe.image_size}")
    counts = known_classes(settings), known_classes(other)
    if None not in counts and counts[0] != counts[1]:
        raise InputError(f"{where}: expected {counts[0]} classes, as the attacked target has, got {counts[1]}")
    for key in PEOPLE_KEYS:
        mine, theirs = getattr(settings.data, key, None), getattr(other.data, key, None)
        if mine != theirs:
            expected = f"expected the people of the attacked target, data.{key} {quoted(mine)}"
            raise InputError(f"{where}: {expected}, got {quoted(theirs)}")
    return other


def _other(settings: InversionSweep, raw: dict[str, Any], values: Mapping[str, Any], *, where: str) -> InversionSweep:
    """The settings with other values under dotted keys."""
    for key, value in values.items():
        set_dotted(raw, key, value, where=where)
    try:
        return type(settings).model_validate(raw)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {' '.join(message.split())}") from None


def known_classes(settings: InversionSweep) -> int | None:
    """How many classes the target tells apart, None where the data alone say it."""
    if isinstance(settings.recipe, ImportedClassifier):
        return settings.recipe.checked.num_classes
    return classes_of(settings.data)
