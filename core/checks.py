"""Checks of parameters, each one line when it fails. They need no torch."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

from smoothsweep.core.bounds import SINGLE
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


def require_number(
    what: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
) -> None:
    """Raise InputError unless `value` is a finite number from `low` to `high`.

    above, below: the lower, the upper bound itself is excluded.
    """
    if type(value) is float and low < value < high and abs(value) <= SINGLE:
        return  # nearly every number: no sentence is made for it
    require_single(what, value)
    expected = _interval(low, high, above, below)
    holds = isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    holds = holds and low <= value <= high and not (above and value == low) and not (below and value == high)
    require(holds, what, expected, value)


def require_single(what: str, value: object) -> None:
    """Raise InputError for a finite number that single precision, which networks compute in, does not hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and SINGLE < abs(value) <= sys.float_info.max:
        require(False, what, f"a number of at most {SINGLE:g} either way, as single precision holds", value)


def require_room(what: str, count: int, each: int) -> None:
    """Raise InputError where `count` things of `each` bytes are more than a machine keeps."""
    if count * each > MOST_BYTES:
        got = f"{count} of {each} bytes each, {count * each / 2**40:.3g} TiB"
        raise InputError(f"{what}: expected at most {MOST_BYTES // 2**40} TiB in all, got {got}")


def require_count(what: str, value: object, least: int = 1, most: int = 10**9) -> None:
    """Raise InputError unless `value` is a whole number from `least` to `most`: products of two counts still fit."""
    if type(value) is int and least <= value <= most:
        return
    whole = isinstance(value, int) and not isinstance(value, bool)
    require(whole and value >= least, what, f"a whole number of at least {least}", value)
    require(whole and value <= most, what, f"a whole number of at most {most}", value)


def require_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Raise InputError, which lists the choices, unless `value` is one of them."""
    require(value in choices, what, f"one of {', '.join(choices)}", value)


def require_range(what: str, value: object, low: float, high: float) -> None:
    """Raise InputError unless `value` is a pair of finite numbers with low < first <= second <= high."""
    pair: Sequence[Any] = value if isinstance(value, tuple | list) and len(value) == 2 else ()
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and _is_finite(v) for v in pair)
    holds = len(pair) == 2 and numbers and low < pair[0] <= pair[1] <= high
    limit = f" <= {high:g}" if math.isfinite(high) else ""
    require(holds, what, f"a pair with {low:g} < first <= second{limit}", value)


def _is_finite(value: float) -> bool:
    """Whether a float can hold it: math.isfinite raises OverflowError for whole numbers that none can."""
    return abs(value) <= sys.float_info.max


def _interval(low: float, high: float, above: bool, below: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return "a finite number"
    if math.isinf(high):
        return f"a finite number {'above' if above else 'of at least'} {low:g}"
    return f"a number in {'(' if above else '['}{low:g}, {high:g}{')' if below else ']'}"
