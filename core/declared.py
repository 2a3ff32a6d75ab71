"""Settings are declared once, as frozen dataclasses: built here from the plain values of a file or a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

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
