"""What a defense is called: its family, how strong it is, and a recipe's name that fits a table's first column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.defenses.strengths import (
    Family,
    Order,
    Strength,
    is_number,
    plain_value,
    setting_text,
    unknown_family,
    value_text,
)
from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.core.text import NBSP

PLAIN = "plain training"
SMOOTHING = "label_smoothing"


@dataclass(frozen=True, kw_only=True)
class RecipeWords:
    """One recipe in words.

    Attributes:
        family: The family's key.
        name: The family's display name.
        strength: Strength with the parameter's name ("beta 0.003").
        mark: Strength beside a point of the family's own curve ("0.003").
        label: The recipe's name ("MID beta 0.003").
        order: See `Strength`.
        arm: What else sets it apart within its family, empty for the main curve.
        smoothing: The label of the smoothing it is combined with, empty without.
        plain: Whether it is no defense at all.
    """

    family: str
    name: str
    strength: str
    mark: str
    label: str
    order: Order | None
    arm: str = ""
    smoothing: str = ""
    starts_plain: bool = False
    plain: bool = False

    @property
    def combined(self) -> bool:
        return bool(self.smoothing)


def recipe_words(defense: Mapping[str, Any]) -> RecipeWords:
    """The words for a defense as a sweep file gives it: `kind`, its parameters, `smoothing` (alpha, schedule).

    Parameters that are null or have their default go without saying; all others enter the label, so that two recipes
    share one only where they are the same. An unknown kind is described by its own names. Never raises: a card
    from outside may hold anything.
    """
    parameters = {key: plain_value(value) for key, value in defense.items() if value is not None}
    kind = str(parameters.pop("kind", "none"))
    if kind in (SMOOTHING, "none"):
        return _smoothed(parameters)
    smoothing = _as_smoothing(parameters.pop("smoothing", None))
    family = family_of(kind) or unknown_family(kind, parameters)
    strength = family.read(parameters)
    extras = [
        _own_words(family, key, value) or setting_text(key, value)
        for key, value in parameters.items()
        if key not in strength.used and value != family.defaults.get(key)
    ]
    smoothing_text = _smoothed(smoothing)
    added = "" if smoothing_text.plain else smoothing_text.label
    named = not strength.value[:1].isdigit()  # "skip removal scale 0.5" may break before its last two words
    family_text = (" " if named else NBSP).join(part for part in (family.word, strength.value) if part)
    tail = "".join(f", {extra}" for extra in extras)
    plus = f" + {added}" if added else ""
    called = NBSP.join(part for part in (family.parameter, strength.value) if part)
    return RecipeWords(
        family=kind,
        name=family.name,
        strength=f"{called or family.word}{tail}{plus}",
        mark=f"{_mark(strength) or family.word}{tail}{plus}",
        label=f"{family_text}{tail}{plus}",
        order=strength.order,
        arm=", ".join(filter(None, (strength.way, *extras, added))),
        smoothing=added,
        starts_plain=family.starts_plain,
    )


def family_of(kind: str) -> Family | None:
    """What pages call a defense, and whose it is; None where its class does not say, or the table does not have it."""
    family = DEFENSES[kind].family if kind in DEFENSES else None
    if family is None:
        return None
    return replace(family, name=with_plugin_name(family.name, "defenses", kind))  # a recipe's name has no room for it


def _own_words(family: Family, parameter: str, value: Any) -> str | None:
    return family.words.get((parameter, value)) if isinstance(value, str) else None


def _mark(strength: Strength) -> str:
    """The strength without the parameter's name, which the curve's title says."""
    first, _, rest = strength.value.partition(NBSP)
    return rest if rest and not first[:1].isdigit() else strength.value


def _smoothed(parameters: Mapping[str, Any]) -> RecipeWords:
    """Label smoothing, of which plain training is the middle."""
    schedule = parameters.get("schedule")
    alpha = parameters.get("alpha", _last_point(schedule))
    order = (float(alpha),) if is_number(alpha) else None
    extras = [setting_text(key, value) for key, value in parameters.items() if key not in ("alpha", "schedule")]
    through = isinstance(schedule, Mapping) and schedule.get("points")
    if schedule is not None and (order != (0.0,) or through):  # without points every path from 0 to 0 is plain
        extras += [words] if (words := _schedule(schedule)) else []
    if order == (0.0,) and not extras:
        return RecipeWords(
            family=SMOOTHING,
            name="Label smoothing",
            strength="alpha\u00a00",
            mark="0",
            label=PLAIN,
            order=order,
            starts_plain=True,
            plain=True,
        )
    factor, tail = value_text(alpha), "".join(f", {extra}" for extra in extras)
    return RecipeWords(
        family=SMOOTHING,
        name="Label smoothing",
        strength=f"alpha{NBSP}{factor}{tail}",
        mark=f"{factor}{tail}",
        label=f"smoothing{NBSP}{factor}{tail}",
        order=order,
        arm=", ".join(extras),
        starts_plain=True,
    )


def _as_smoothing(smoothing: Any) -> Mapping[str, Any]:
    """`{alpha: ..., schedule: ...}`, of which a file or card may give the factor alone."""
    return smoothing if isinstance(smoothing, Mapping) else {} if smoothing is None else {"alpha": smoothing}


def _last_point(schedule: Any) -> Any:
    """Where a piecewise schedule ends; 0 where nothing says anything."""
    points = schedule.get("points") if isinstance(schedule, Mapping) else None
    last = points[-1] if isinstance(points, (list, tuple)) and points else None
    return last[-1] if isinstance(last, (list, tuple)) and last else 0


def _schedule(schedule: Any) -> str:
    """`linear, start 0.2`; a constant goes without saying."""
    if not isinstance(schedule, Mapping):
        return value_text(schedule)
    parameters = {key: value for key, value in schedule.items() if value is not None and key != "kind"}
    kind = str(schedule.get("kind", "constant"))
    return (
        ""
        if kind == "constant" and not parameters
        else " ".join([kind, *(setting_text(k, v) for k, v in parameters.items())])
    )
