"""Values that no field of settings of a type takes: what the tests of whole families of settings try."""

import math
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

OF_ANOTHER_TYPE = (None, True, 3, 2.5, math.nan, math.inf, 10**400, "nonsense", (), ["x", "y", "z"], {"q": 1})


def nonsense_for(declared: type) -> list[tuple[str, Any]]:
    """(field, value of another type) of a dataclass of settings, its nested ones apart."""
    hints, inside = get_type_hints(declared), nested_of(declared)
    return [
        (field.name, value)
        for field in fields(declared)
        if field.name not in inside
        for value in OF_ANOTHER_TYPE
        if not _may_be(hints[field.name], value)
    ]


def nested_of(declared: type) -> dict[str, type]:
    """The fields that hold settings of their own, or may, and the dataclass of these."""
    hints = get_type_hints(declared)
    return {field.name: kind for field in fields(declared) for kind in _kinds(hints[field.name]) if is_dataclass(kind)}


def numbers_of(declared: type) -> set[str]:
    """The fields that hold one number."""
    hints = get_type_hints(declared)
    return {field.name for field in fields(declared) if {int, float} & {*_kinds(hints[field.name])}}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _may_be(hint: Any, value: Any) -> bool:
    """Whether the type, whatever the bounds, has such a value; generous with tuples, which are tried elsewhere."""
    for kind in _kinds(hint):
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if get_origin(kind) is Literal:
            if value in get_args(kind):
                return True
        elif get_origin(kind) is tuple:
            if value == () or (value == ["x", "y", "z"] and str in get_args(kind)):
                return True
        elif kind is float:
            if type(value) in (int, float) and abs(value) < 1e300:
                return True
        elif type(value) is kind or (kind is NoneType and value is None):
            return True
    return False
