"""Cells of the tables of published numbers: text -> value. Each raises ValueError, which says what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any


def as_word(text: str) -> str:
    """A word."""
    if not text or text != text.strip():
        raise ValueError("a word")
    return text


def optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same reader, None for an empty cell."""
    return lambda text: parse(text) if text else None


def one_of(names: Iterable[str]) -> Callable[[str], str]:
    """A reader that takes these words alone."""
    valid = tuple(names)

    def parse(text: str) -> str:
        if text not in valid:
            raise ValueError(f"one of {', '.join(valid)}")
        return text

    return parse


def as_count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number from 1")
    return int(text)


def as_real(text: str) -> float:
    """A plain decimal: no exponent, which would hide how many digits were printed."""
    if not text.removeprefix("-").replace(".", "", 1).isdecimal() or not math.isfinite(float(text)):
        raise ValueError("a decimal number")
    return float(text)


def as_samples(text: str) -> int | None:
    """Images per class; None for `all`."""
    return None if text == "all" else as_count(text)


def as_setting(text: str) -> Mapping[str, str]:
    """`name=value;name=value` as a mapping."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    if any(not name or not equals or not value for name, equals, value in pairs):
        raise ValueError("name=value, several separated by ;")
    return MappingProxyType({name: value for name, _, value in pairs})
