"""Settings are declared once, as frozen dataclasses: built here from the plain values of a file or a manifest, and
checked by the types of their fields (`core.bounds`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from core.bounds import LARGEST
from core.checks import require, require_choice, require_count, require_number
from core.errors import InputError

T = TypeVar("T")


def build(declared: type[T], values: Mapping[str, Any], *, what: str) -> T:
    """An instance of a dataclass of settings: lists become tuples, mappings the dataclasses of their fields.

    Raises InputError, one line that begins with `what`, for a name that it does not have or needs and does not get,
    and whatever the dataclass itself refuses.
    """
    known, hints = {field.name: field for field in fields(declared)}, _hints(declared)
    for name in values:
        if name not in known:
            raise InputError(f"{what}: does not read {name!r}; it reads {', '.join(known) or 'no parameter'}")
    for name, field in known.items():
        if field.default is MISSING and field.default_factory is MISSING and name not in values:
            raise InputError(f"{what}: expected {name}, got nothing")
    return declared(**{name: _value(hints[name], value, f"{what}: {name}") for name, value in values.items()})


@lru_cache
def _hints(declared: type) -> dict[str, Any]:
    return get_type_hints(declared)


def _value(hint: Any, value: Any, what: str) -> Any:
    if isinstance(value, Mapping) and (nested := next(filter(is_dataclass, (hint, *get_args(hint))), None)):
        return build(nested, value, what=what)
    return tuple(value) if isinstance(value, list) else value


def check_fields(settings: Any, what: str) -> None:
    """Refuse a dataclass of settings with a number or choice, or a tuple of them, that is not what its type says.

    Raises InputError, one line that begins with `what` and the field: whole numbers and finite ones within their
    bounds, a `Literal`'s choices, each item of a tuple; None where the type has it. Other types are not looked at.
    """
    for name, hint in _bounded(type(settings)).items():
        if name in settings.__dataclass_fields__:
            _check(f"{what}{name}", getattr(settings, name), hint)


@lru_cache
def _bounded(declared: type) -> dict[str, Any]:
    return get_type_hints(declared, include_extras=True)


def _check(what: str, value: Any, hint: Any) -> None:
    kind, bounds = (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())
    if get_origin(kind) in (Union, UnionType):
        others = [one for one in get_args(kind) if one is not NoneType]
        if value is not None and len(others) == 1:
            _check(what, value, others[0])
    elif get_origin(kind) is Literal:
        require_choice(what, value, get_args(kind))
    elif get_origin(kind) is tuple:
        items = get_args(kind)
        items = items[:1] * len(value) if items[1:] == (...,) else items
        require(len(value) == len(items), what, f"{len(items)} values", value)
        for one, item in zip(value, items, strict=True):
            _check(what, one, item)
    elif kind in (int, float):
        _check_number(what, value, kind, bounds)


def _check_number(what: str, value: Any, kind: type, bounds: tuple[Any, ...]) -> None:
    low = max((bound.ge for bound in bounds if isinstance(bound, Ge)), default=None)
    high = min((bound.le for bound in bounds if isinstance(bound, Le)), default=None)
    if kind is int:
        return require_count(what, value, -LARGEST if low is None else low, LARGEST if high is None else high)
    above = next((bound.gt for bound in bounds if isinstance(bound, Gt)), None)
    below = next((bound.lt for bound in bounds if isinstance(bound, Lt)), None)
    return require_number(
        what, value, next((end for end in (above, low) if end is not None), -math.inf),
        next((end for end in (below, high) if end is not None), math.inf),
        above=above is not None, below=below is not None,
    )  # fmt: skip
