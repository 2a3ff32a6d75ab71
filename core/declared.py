"""Settings are declared once, as frozen dataclasses: built here from the plain values of a file or a manifest, and
checked by the types of their fields."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import LARGEST, SINGLE, Checked
from smoothsweep.core.checks import require_count, require_number, require_single
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance  # what any dataclass is to a type checker


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
