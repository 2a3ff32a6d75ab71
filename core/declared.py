"""Settings are declared once, as frozen dataclasses: built here from the plain values of a file or a manifest, and
checked by the types of their fields (`core.plain_values`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from smoothsweep.core.errors import InputError
from smoothsweep.core.plain_values import check_value, quick_check

if TYPE_CHECKING:
    from _typeshed import DataclassInstance  # what any dataclass is to a type checker

T = TypeVar("T", bound="DataclassInstance")


def build(declared: type[T], values: Mapping[str, Any], *, what: str, prefix: str, default: T | None = None) -> T:
    """An instance of a dataclass of settings: lists become tuples, mappings the dataclasses of their fields.

    What is not given is as in `default`, by default the dataclass's own; within a field as in that field's default.

    Raises InputError, one line, for a name that it does not have or needs and does not get (the line begins with
    `what`), a value of another type or out of the bounds of its annotation (it begins with `prefix` and the field's
    name: "attack." makes attack.steps), and whatever the dataclass itself refuses.
    """
    known = _field_rules(declared)
    for name in values:
        if name not in known:
            raise InputError(f"{what}: does not read {name!r}; it reads {', '.join(known) or 'no parameter'}")
    if default is None:
        for name, rules in known.items():
            if rules.is_needed and name not in values:
                raise InputError(f"{what}: expected {name}, got nothing")
    checked = {name: _value(known[name], value, what, prefix) for name, value in values.items()}
    return declared(**checked) if default is None else replace(default, **checked)


def check_fields(settings: Any, what: str) -> None:
    """Raise InputError, one line that begins with `what` and the field, for one that is not what its type says."""
    for name, rules in _field_rules(type(settings)).items():
        value = getattr(settings, name)
        if not rules.holds(value):
            check_value(rules.hint, value, f"{what}{name}")


def check_declared(declared: type[Any]) -> None:
    """Raise InputError for settings that cannot be built from a file: a type that nobody knows, a default out of range.

    declared: the dataclass; nothing of it is built.
    """
    try:
        hints = get_type_hints(declared, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise InputError(f"expected types that its module knows, got: {error}") from None
    for field in fields(declared):
        if field.default is not MISSING:
            check_value(hints[field.name], field.default, f"the default of {field.name}")


def check_constants(member: type[Any]) -> None:
    """Raise InputError for a constant of a class that is not what its `ClassVar` says.

    What a class computes in its place, as a property, is left alone.
    """
    for name, hint in get_type_hints(member, include_extras=True).items():
        if get_origin(hint) is ClassVar and not hasattr(inspect.getattr_static(member, name), "__get__"):
            check_value(get_args(hint)[0], getattr(member, name), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FieldRules:
    """A field of settings, looked up once for its class.

    Attributes:
        hint: The field's type with bounds.
        holds: `quick_check` of that type.
        nested: The settings that its mappings make, None where it takes none.
        usual: Its default where that is of these settings.
        is_needed: Whether it has no default.
    """

    field: Field[Any]
    hint: Any
    holds: Callable[[Any], bool]
    nested: type[Any] | None
    usual: Any
    is_needed: bool


@lru_cache
def _field_rules(declared: type[DataclassInstance]) -> dict[str, _FieldRules]:
    hints = get_type_hints(declared, include_extras=True)
    return {field.name: _read_field_rules(field, hints[field.name]) for field in fields(declared)}


def _read_field_rules(field: Field[Any], hint: Any) -> _FieldRules:
    nested = next(filter(_is_settings, (hint, *get_args(hint))), None)
    default = None if nested is None else _default(field)
    return _FieldRules(
        field=field,
        hint=hint,
        holds=quick_check(hint),
        nested=nested,
        usual=default if nested is not None and isinstance(default, nested) else None,
        is_needed=field.default is MISSING and field.default_factory is MISSING,
    )


def _value(rules: _FieldRules, value: Any, what: str, prefix: str) -> Any:
    name = rules.field.name
    if rules.nested is not None and isinstance(value, Mapping):
        return build(rules.nested, value, what=f"{what}: {name}", prefix=f"{prefix}{name}.", default=rules.usual)
    value = tuple(value) if isinstance(value, list) else value
    if not rules.holds(value):
        check_value(rules.hint, value, f"{prefix}{name}")
    return value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)
