"""Settings are declared once, as frozen dataclasses: built here from the plain values of a file or a manifest, and
checked by the types of their fields (`core.plain_values`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

from smoothsweep.core.errors import InputError
from smoothsweep.core.plain_values import check_value

T = TypeVar("T")


def build(declared: type[T], values: Mapping[str, Any], *, what: str, prefix: str, default: T | None = None) -> T:
    """An instance of a dataclass of settings: lists become tuples, mappings the dataclasses of their fields.

    What is not given is as in `default`, by default the dataclass's own; within a field as in that field's default.

    Raises InputError, one line, for a name that it does not have or needs and does not get (the line begins with
    `what`), a value of another type or out of the bounds of its annotation (it begins with `prefix` and the field's
    name: "attack." makes attack.steps), and whatever the dataclass itself refuses.
    """
    known, hints = {field.name: field for field in fields(declared)}, _hints(declared)
    for name in values:
        if name not in known:
            raise InputError(f"{what}: does not read {name!r}; it reads {', '.join(known) or 'no parameter'}")
    for name, field in known.items():
        if field.default is MISSING and field.default_factory is MISSING and name not in values and default is None:
            raise InputError(f"{what}: expected {name}, got nothing")
    given = {
        name: _value(hints[name], value, f"{what}: {name}", f"{prefix}{name}", _default(known[name]))
        for name, value in values.items()
    }
    return declared(**given) if default is None else replace(default, **given)


def check_fields(settings: Any, what: str) -> None:
    """Raise InputError, one line that begins with `what` and the field, for one that is not what its type says."""
    for field in fields(settings):
        check_value(_hints(type(settings))[field.name], getattr(settings, field.name), f"{what}{field.name}")


@lru_cache
def _hints(declared: type) -> dict[str, Any]:
    return get_type_hints(declared, include_extras=True)


def _value(hint: Any, value: Any, what: str, key: str, default: Any) -> Any:
    if isinstance(value, Mapping) and (nested := next(filter(_is_settings, (hint, *get_args(hint))), None)):
        usual = default if isinstance(default, nested) else None
        return build(nested, value, what=what, prefix=f"{key}.", default=usual)
    value = tuple(value) if isinstance(value, list) else value
    check_value(hint, value, key)
    return value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)
