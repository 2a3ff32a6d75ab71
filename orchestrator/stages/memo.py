"""Stages that the trials of a sweep share, made once: what a function of settings returned for the same objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from types import NoneType
from typing import Any, ParamSpec, TypeVar

KEPT = 4096  # results of a function: those that were asked for last; trials of one cell are planned together
VALUES = frozenset({int, str, bool, tuple, NoneType})
"""Types of arguments that are compared by value."""

P = ParamSpec("P")
R = TypeVar("R")
_FORGET: list[Callable[[], None]] = []


def remembered(parts: Callable[P, tuple[Any, ...]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The function, called once for the same parts of its arguments, which are all that its result depends on.

    parts: of the same arguments, what the result depends on: frozen settings, stages, and plain values. Settings and
    stages are compared as objects, not by what they say, which would cost more than most of the calls. They are kept
    alive meanwhile, so that no other object can take their place. The result is not changed by callers.
    """

    def once_for(function: Callable[P, R]) -> Callable[P, R]:
        cached: OrderedDict[tuple[Any, ...], tuple[Any, R]] = OrderedDict()
        _FORGET.append(cached.clear)

        @wraps(function)
        def once(*args: P.args, **kwargs: P.kwargs) -> R:
            of = parts(*args, **kwargs)
            key = tuple([part if type(part) in VALUES else id(part) for part in of])
            entry = cached.get(key)
            if entry is not None:
                cached.move_to_end(key)
                return entry[1]
            cached[key] = entry = (of, function(*args, **kwargs))
            if len(cached) > KEPT:
                cached.popitem(last=False)
            return entry[1]

        return once

    return once_for


def forget() -> None:
    """Make everything anew from here on: files may be others."""
    for clear in _FORGET:
        clear()
