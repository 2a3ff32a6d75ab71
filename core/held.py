"""Objects of this process that cards name: models and priors that a caller of the library hands over."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

from smoothsweep.core.errors import InputError

_HELD: dict[str, Any] = {}
_NUMBERS = count()


@contextmanager
def holding(thing: Any) -> Generator[str]:
    """Within it cards may name the object, by the name that it gives."""
    name = f"held {next(_NUMBERS)}"
    _HELD[name] = thing
    try:
        yield name
    finally:
        del _HELD[name]


def is_held(name: object) -> bool:
    """Whether this process holds an object of that name."""
    return name in _HELD


def held(name: str) -> Any:
    """The object of that name. Raises InputError in a process that does not hold it."""
    if name not in _HELD:
        raise InputError(f"{name}: expected an object that this process holds, got a name from another one")
    return _HELD[name]
