"""Whether a plain value, as a file gives it, is what a field of settings declares: its type, and its bounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import LARGEST, SINGLE, Checked
from smoothsweep.core.checks import require_count, require_number, require_single
from smoothsweep.core.errors import InputError

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "text",
    NoneType: "nothing",
}


def check_value(hint: Any, value: Any, what: str) -> None:
    """Raise InputError "what: expected ..., got ..." unless `value` is of the type `hint` and within its bounds.

    A number is no truth value and no text; a whole number may stand for a decimal one, which is finite.
    """
    plain, bounds = _parted(hint)
    if plain is float:
        require_single(what, value)
    if plain in (int, float) and bounds:
        return _check_number(what, value, plain, bounds)
    if not _is_of(plain, value):
        raise InputError(f"{what}: expected {_in_words(plain)}, got {value!r}")
    inside = get_args(plain)
    if get_origin(plain) in (Union, UnionType):
        check_value(next(kind for kind in inside if _is_of(kind, value)), value, what)
    elif get_origin(plain) is tuple:
        for kind, part in zip(_each(inside, value), value, strict=True):
            check_value(kind, part, what)
    for bound in bounds:
        if isinstance(bound, Checked):
            _check_by(bound, value, what)
    return None


def quick_check(hint: Any) -> Callable[[Any], bool]:
    """A test that is true of nothing that `check_value` refuses, made once for a type that many values are checked by.

    It may be false of a value that is fine: `check_value` decides then, and says what is wrong.
    """
    plain, bounds = _parted(hint)
    if not all(type(bound) in (Ge, Gt, Le, Lt) for bound in bounds):
        return _undecided
    kind, inside = get_origin(plain), get_args(plain)
    if plain in (int, float):
        return _quick_number(plain, bounds)
    if bounds or plain is Any:
        return _undecided
    if kind is Literal and all(type(kind) is str for kind in inside):
        words = frozenset(inside)
        return lambda value: type(value) is str and value in words
    if kind in (Union, UnionType):
        return _quick_optional(inside)
    if kind is tuple:
        return _quick_tuple(inside)
    return (lambda value: type(value) is plain) if isinstance(plain, type) else _undecided


def _quick_number(kind: type, bounds: tuple[Any, ...]) -> Callable[[Any], bool]:
    low = max((bound.ge for bound in bounds if type(bound) is Ge), default=-LARGEST if kind is int else -SINGLE)
    high = min((bound.le for bound in bounds if type(bound) is Le), default=LARGEST if kind is int else SINGLE)
    if kind is int:
        return lambda value: type(value) is int and low <= value <= high
    above = next((bound.gt for bound in bounds if type(bound) is Gt), -math.inf)
    below = next((bound.lt for bound in bounds if type(bound) is Lt), math.inf)
    low, high = max(low, -SINGLE), min(high, SINGLE)
    return lambda value: type(value) in (float, int) and low <= value <= high and above < value < below


def _quick_optional(inside: tuple[Any, ...]) -> Callable[[Any], bool]:
    others = [kind for kind in inside if kind is not NoneType]
    if len(others) != 1 or len(inside) != 2:
        return _undecided
    test = quick_check(others[0])
    return lambda value: value is None or test(value)


def _quick_tuple(inside: tuple[Any, ...]) -> Callable[[Any], bool]:
    if inside[1:] == (...,):
        test = quick_check(inside[0])
        return lambda value: type(value) is tuple and all(map(test, value))
    tests = [quick_check(kind) for kind in inside]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(tests)
        and all(test(part) for test, part in zip(tests, value, strict=True))
    )


def _undecided(value: Any) -> bool:
    return False


def _check_number(what: str, value: Any, kind: type, bounds: tuple[Any, ...]) -> None:
    low = max((bound.ge for bound in bounds if isinstance(bound, Ge)), default=None)
    high = min((bound.le for bound in bounds if isinstance(bound, Le)), default=None)
    if kind is int:
        return require_count(what, value, -LARGEST if low is None else low, LARGEST if high is None else high)
    above = next((bound.gt for bound in bounds if isinstance(bound, Gt)), None)
    below = next((bound.lt for bound in bounds if isinstance(bound, Lt)), None)
    return require_number(
        what,
        value,
        next((end for end in (above, low) if end is not None), -math.inf),
        next((end for end in (below, high) if end is not None), math.inf),
        above=above is not None,
        below=below is not None,
    )


def _check_by(bound: Checked, value: Any, what: str) -> None:
    try:
        bound.check(value)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


def _parted(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """(type, bounds) of a hint that may be Annotated."""
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


def _is_of(hint: Any, value: Any) -> bool:
    hint, _ = _parted(hint)
    kind, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
        return any(_is_of(kind, value) for kind in inside)
    if kind is Literal:
        return any(type(value) is type(kind) and value == kind for kind in inside)
    if kind is tuple:
        if not isinstance(value, tuple) or len(value) != len(_each(inside, value)):
            return False
        return all(map(_is_of, _each(inside, value), value))
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # of no whole number beyond floats
    return isinstance(value, kind or hint)  # what a mapping holds is checked where it is read


def _each(inside: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The type of every member of a tuple."""
    return inside[:1] * len(value) if inside[1:] == (...,) else inside


def _in_words(hint: Any) -> str:
    hint, _ = _parted(hint)
    kind, inside = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(_in_words, inside))
    if kind is Literal:
        return f"one of {', '.join(map(str, inside))}"
    if kind is tuple:
        return "a list" if inside[1:] == (...,) else f"a list of {len(inside)} values"
    return "keys and their values" if is_dataclass(hint) else _WORDS.get(hint, str(hint))
