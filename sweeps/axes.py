"""The columns that tell cells apart: which keys they are, how they are called, what stands in them."""

from __future__ import annotations

from typing import Any

from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS
from smoothsweep.core.text import printable
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.training import trial_words

COLUMNS = frozenset(
    {
        "trial",
        "seed",
        "phase",
        "protocol",
        "status",
        "failure",
        "reasons",
        "prior",
        "attack",
        "class",
        "recipe",
        "attack_access",
        "attack_control",
        "attack_published",
        "recipe_architecture",
        "recipe_defense",
        "recipe_defense_parameters",
        "recipe_alpha",
        "recipe_schedule",
        "recipe_epochs",
        "recipe_workers",
        "recipe_poison",
        *BY_KEY,
        *TIME_COLUMNS,
    }
)
"""Columns of the results that are no axes: an axis of that name would take another's place."""


def axis_keys(loaded: LoadedSweep) -> list[str]:
    """The dotted keys that tell cells apart, listed ones first.

    The keys of a search's space come before those of its grid. A listed key that follows from those before it (the
    number of steps from the data set, say) is no axis of its own.
    """
    keys: list[str] = []
    listed = loaded.sweep.cells
    for key in listed[0] if listed else ():
        seen: dict[str, Any] = {}
        known = [repr([cell[k] for k in keys]) for cell in listed]
        if any(seen.setdefault(k, cell[key]) != cell[key] for k, cell in zip(known, listed, strict=True)):
            keys.append(key)
    search = loaded.sweep.search
    return [*keys, *(search.space if search else ()), *loaded.sweep.grid]


def axis_names(keys: list[str]) -> dict[str, str]:
    """Dotted key -> the shortest column name that is unambiguous and no other column's: recipe.defense.alpha -> alpha.

    `attack.seed` is not called `seed`, which is the trial's.
    """
    names = {}
    for key in keys:
        parts = key.split(".")
        for length in range(1, len(parts) + 1):
            name = "_".join(parts[-length:])
            others = {"_".join(other.split(".")[-length:]) for other in keys if other != key}
            if name not in others and name not in COLUMNS:
                break
        names[key] = f"attack_{name}" if parts[0] == "attack" and name == "loss" else name
        if names[key] in COLUMNS:  # a whole part of the file, `prior` say
            names[key] = f"{names[key]}_settings"
    return names


def axis_value(value: Any) -> Any:
    """A value as tables show it: a structured one (a schedule, another trial) as compact text, all text as a printable
    line."""
    if isinstance(value, dict) and set(value) == {"trial"} and isinstance(value["trial"], dict):
        value = trial_words(value["trial"])
    elif isinstance(value, dict):
        value = " ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        value = str(value)
    return printable(value, most=len(value)) if isinstance(value, str) else value


def settings_words(value: dict[str, Any]) -> str:
    """A mapping of a sweep file as a table's name for it: `badnets (size 3)`, by its kind where it has one; another
    trial by what is stated of it."""
    if set(value) == {"trial"}:
        return axis_value(value)
    others = {key: each for key, each in value.items() if key != "kind" and each is not None}
    stated = ", ".join(f"{key.replace('_', ' ')} {axis_value(each)}" for key, each in others.items())
    kind = str(value.get("kind", ""))
    words = f"{kind} ({stated})" if kind and stated else kind or stated
    return printable(words, most=len(words))
