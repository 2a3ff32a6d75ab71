"""Stages that the trials of a sweep share, made once: what a function of settings returned for the same objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

KEPT = 256  # results of a function: those of the last few cells; trials of one cell are planned together

P = ParamSpec("P")
R = TypeVar("R")
_FORGET: list[Callable[[], None]] = []


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called once for the same argument objects. They are frozen; so is what it returns.

    Arguments are compared as objects, not by their values, which would cost more than most of the calls. They are kept
    alive meanwhile, so that no other object can take their place.
    """
    kept: OrderedDict[tuple[Any, ...], tuple[Any, R]] = OrderedDict()
    _FORGET.append(kept.clear)

    @wraps(function)
    def once(*args: P.args, **kwargs: P.kwargs) -> R:
        key = (*map(id, args), *((name, id(value)) for name, value in kwargs.items()))
        found = kept.get(key)
        if found is None:
            found = kept[key] = ((args, kwargs), function(*args, **kwargs))
            if len(kept) > KEPT:
                kept.popitem(last=False)
        return found[1]

    return once


def forget() -> None:
    """Make everything anew from here on: files may be others."""
    for clear in _FORGET:
        clear()
