"""How a reader meets a defense: what pages call it, and how its strength reads. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.core.text import NBSP, minus

Order = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How strongly a defense is applied.

    Attributes:
        value: The strength in a reader's words.
        order: Numbers that grow with the strength, 0 where nothing is left of it; None where the strength has no order.
        used: The parameters this says all about.
        way: Which of several ways to measure it, empty for the usual one: strengths measured otherwise share no curve.
    """

    value: str
    order: Order | None
    used: tuple[str, ...]
    way: str = ""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A defense as a reader meets it.

    Attributes:
        name: The name of its curve.
        word: Word before the strength in a recipe's name.
        parameter: What the strength is called.
        read: The strength of a defense's parameters.
        starts_plain: Whether the weakest end of the curve is plain training.
        why: What is left at that end, where it is not.
        defaults: Parameters that go without saying.
        words: (parameter, value) -> what a label says for the two.
    """

    name: str
    word: str
    read: Callable[[Mapping[str, Any]], Strength]
    parameter: str = ""
    starts_plain: bool = True
    why: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[tuple[str, Any], str] = field(default_factory=dict)


def setting_text(key: str, value: Any) -> str:
    """`norm 3`: a parameter beside its value."""
    return f"{str(key).replace('_', ' ')}{NBSP}{value_text(value)}"


def value_text(value: Any) -> str:
    """Numbers without a tail of digits; everything else as text, never empty, containers without their brackets."""
    if is_number(value):
        return minus(f"{value:.6g}".replace("e-0", "e-"))
    if isinstance(value, Mapping):
        text = " ".join(setting_text(key, inner) for key, inner in value.items() if inner is not None)
    elif isinstance(value, (list, tuple)):
        text = " ".join(value_text(inner) for inner in value)
    else:
        text = str(value).replace("_", " ")
    return text or "nothing"


def is_number(value: Any) -> bool:
    """A number that is neither a boolean nor NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def plain_value(value: Any) -> Any:
    """Lists as tuples, so that values compare."""
    return tuple(plain_value(inner) for inner in value) if isinstance(value, (list, tuple)) else value


def numbers(
    *parameters: str, named: bool = False, grows: Callable[[float], float] = float, usual: float | None = None
) -> Callable[..., Strength]:
    """A strength that is one or several numbers, named where the family's word does not say what they are.

    usual: of a number that is not given.
    """

    def read(stated: Mapping[str, Any]) -> Strength:
        values = [stated.get(name, usual) for name in parameters]
        known = [value for value in values if value is not None]
        values_text = " / ".join(map(value_text, known)) if known else ""
        ordered = tuple(grows(value) for value in values) if all(map(is_number, values)) else None
        name = f"{parameters[0]}{NBSP}" if named and values_text else ""
        return Strength(value=f"{name}{values_text}".replace(" / ", f"{NBSP}/{NBSP}"), order=ordered, used=parameters)

    return read


def unknown_family(kind: str, parameters: Mapping[str, Any]) -> Family:
    """A family of which nothing is known: a single number is its strength, anything else tells recipes apart."""
    names = tuple(name for name, value in parameters.items() if is_number(value) and name != "smoothing")
    word, single = kind.replace("_", " "), names if len(names) == 1 else ()
    name = with_plugin_name(word, "defenses", kind)
    read = numbers(*single, named=True) if single else (lambda _: Strength(value="", order=None, used=()))
    return Family(
        name=name[:1].upper() + name[1:],
        word=word,
        read=read,
        starts_plain=False,
        why="what its weakest setting leaves is not known here",
    )
