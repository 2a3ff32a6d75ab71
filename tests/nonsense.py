"""Values just beyond the bounds of settings, and other values that they take, for tests of whole families."""

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt


def nested_of(declared: type) -> dict[str, type]:
    """The fields that hold settings of their own, or may, and the dataclass of these."""
    hints = get_type_hints(declared)
    return {field.name: kind for field in fields(declared) for kind in _kinds(hints[field.name]) if is_dataclass(kind)}


def beyond(hint: Any) -> list[Any]:
    """Values just beyond the bounds of a type: of a number, of each number of a tuple, of what a union may be."""
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    step = 1 if plain is int else 0.1
    found: list[Any] = []
    for bound in get_args(hint)[1:] if plain is not hint else ():
        found += [bound.ge - step] if isinstance(bound, Ge) else [bound.gt] if isinstance(bound, Gt) else []
        found += [bound.le + step] if isinstance(bound, Le) else [bound.lt] if isinstance(bound, Lt) else []
    if get_origin(plain) is tuple:
        return [(value,) * (1 if ... in get_args(plain) else 2) for value in beyond(get_args(plain)[0])]
    return found + [value for kind in _kinds(plain) if kind is not plain for value in beyond(kind)]


def another(hint: Any, default: Any) -> Any:
    """Another value of a type, as a file gives it: for a test that changes each field of settings by itself."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1 if isinstance(default, int) else default / 2 or 0.1
    if is_dataclass(default):
        of_fields = get_type_hints(type(default), include_extras=True)
        first = next(field.name for field in fields(default) if field.name not in ("workers", "imported"))
        return {first: another(of_fields[first], getattr(default, first))}
    (choices,) = [get_args(kind) for kind in _kinds(hint) if get_origin(kind) is Literal]
    return next(choice for choice in choices if choice != default)


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
