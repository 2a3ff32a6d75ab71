"""Checks of parameters, each one line when it fails. They need no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from smoothsweep.core.errors import InputError

T = TypeVar("T")

MOST_BYTES = 2**40
"""Most bytes that one stage keeps."""


def require(holds: bool, what: str, expected: str, got: object) -> None:
    """Raise InputError "what: expected ..., got ..." unless it holds."""
    if not holds:
        raise InputError(f"{what}: expected {expected}, got {got!r}")


def present(value: T | None, what: str) -> T:
    """A value that is there because of what was checked before. Raises ValueError, naming it, where it is None."""
    if value is None:
        raise ValueError(f"{what}: expected it to be given, got none")
    return value


def require_room(what: str, count: int, each: int) -> None:
    """Raise InputError where `count` things of `each` bytes are more than a machine keeps."""
    if count * each > MOST_BYTES:
        got = f"{count} of {each} bytes each, {count * each / 2**40:.3g} TiB"
        raise InputError(f"{what}: expected at most {MOST_BYTES // 2**40} TiB in all, got {got}")


def require_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Raise InputError, which lists the choices, unless `value` is one of them."""
    require(value in choices, what, f"one of {', '.join(choices)}", value)
