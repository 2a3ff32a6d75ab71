"""Settings are declared once, as frozen dataclasses with the bounds in their types: built here from the plain values of
a file or a manifest, checked by pydantic, and what it finds wrong said in one line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from smoothsweep.core.bounds import LARGEST, PATTERNS, SINGLE
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted, shortened, suggestion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance  # what any dataclass is to a type checker
    from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T", bound="DataclassInstance")

STRICT: ConfigDict = {"strict": True, "allow_inf_nan": False}
"""A number is no truth value and no text, and the other way round; a whole number may stand for a decimal one."""

_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("of at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("of at most", "le"),
}
"""pydantic's type of error -> its words, and what holds the bound."""
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_CHOICE = re.compile(r"expected one of (?P<known>.+), got '(?P<got>[^']*)'")
_CLASS = re.compile(r" or (?:an )?instance of \w+")


def first_mistake(error: ValidationError, tags: Collection[str] = ()) -> str:
    """One line for the first error: key, expected, got (and how many more), and what may have been meant.

    tags: names of a union's members, which pydantic adds to the place of an error.
    """
    mistakes = error.errors(include_url=False)
    first, place = mistakes[0], mistakes[0]["loc"]
    parts = [str(part) for part in place if not (place.index(part) and (part in tags or "[" in str(part)))]
    key = shortened(".".join(parts))
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    if first["type"] in ("unknown_key", "extra_forbidden"):
        known = first.get("ctx", {}).get("known", ())
        near = suggestion(place[-1], known)
        listed = f"one of the keys {', '.join(sorted(known))}" if known and not near else "a known key"
        sentence = f"expected {listed}, got the unknown key {quoted(place[-1])}{near}"
    else:
        sentence = _sentence(first)
        match = _CHOICE.search(sentence)
        sentence += suggestion(match["got"], re.findall(r"[\w.-]+", match["known"])) if match else ""
    names_key = not key or sentence.startswith(f"{key}.")  # settings that core checks name their key themselves
    return f"{sentence if names_key else f'{key}: {sentence}'}{more}"


def _sentence(mistake: Mapping[str, Any]) -> str:
    kind, context, got = mistake["type"], mistake.get("ctx", {}), mistake.get("input")
    if kind == "missing":
        return "expected a value, got none"
    if kind == "value_error":
        return " ".join(str(context["error"]).split())
    if kind in ("union_tag_invalid", "literal_error"):
        expected = (context.get("expected_tags") or context["expected"]).replace("'", "").replace(" or ", ", ")
        return f"expected one of {expected}, got {quoted(context.get('tag', got))}"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        bound = context[name]
        number = f"a whole number {words} {bound}" if isinstance(bound, int) else f"a number {words} {bound:.15g}"
        return f"expected {number}, got {quoted(got)}"
    if kind in _LENGTHS:
        words, name = _LENGTHS[kind]
        return f"expected {words} {context[name]} {'item' if context[name] == 1 else 'items'}, got {quoted(got)}"
    if kind == "string_pattern_mismatch":
        return f"expected {PATTERNS.get(context['pattern'], context['pattern'])}, got {quoted(got)}"
    message = mistake["msg"].removeprefix("Input should be ").removeprefix("Input should have ")
    message = message.replace("valid tuple", "list").replace("valid dictionary", "mapping of keys")
    message = _CLASS.sub("", message)  # a file never holds one
    return f"expected {message}, got {quoted(got)}"


def check_value(hint: Any, value: Any, what: str) -> None:
    """Raise InputError "what: expected ..., got ..." unless `value` is of the type `hint` and within its bounds.

    What a mapping holds, and the fields of a dataclass, are checked where they are read.
    """
    from pydantic import ValidationError  # a command's help needs none of it

    try:
        _adapter(hint).validate_python((value,))
    except ValidationError as error:
        raise InputError(f"{what}: {_sentence(error.errors(include_url=False)[0])}") from None
    for number in _numbers(value):
        if abs(number) > (LARGEST if isinstance(number, int) else SINGLE):
            most = f"{SINGLE:g} either way, as single precision holds"
            most = f"a whole number of at most {LARGEST}" if isinstance(number, int) else f"a number of at most {most}"
            raise InputError(f"{what}: expected {most}, got {quoted(number)}")


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    one: Any = tuple.__class_getitem__(_checked(hint))  # pydantic configures no type of a dataclass alone
    return TypeAdapter(one, config=ConfigDict(**STRICT, arbitrary_types_allowed=True))


def _checked(hint: Any) -> Any:
    """The type as far as it is checked."""
    kind, inside = get_origin(hint), get_args(hint)
    if _is_settings(hint):
        from pydantic import InstanceOf

        return InstanceOf[hint]
    if kind in (Union, UnionType):
        return Union[tuple(map(_checked, inside))]  # noqa: UP007 - made at run time
    return kind if isinstance(kind, type) and issubclass(kind, Mapping) else hint


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _numbers(part)


@cache
def hints_of(declared: type[Any]) -> dict[str, Any]:
    """Field or constant -> its type with bounds."""
    return get_type_hints(declared, include_extras=True)


def build(declared: type[T], values: Mapping[str, Any], *, what: str, prefix: str, default: T | None = None) -> T:
    """An instance of a dataclass of settings: lists become tuples, mappings the dataclasses of their fields.

    What is not given is as in `default`, by default the dataclass's own; within a field as in that field's default.

    Raises InputError, one line, for a name that it does not have or needs and does not get (the line begins with
    `what`), a value of another type or out of the bounds of its annotation (it begins with `prefix` and the field's
    name: "attack." makes attack.steps), and whatever the dataclass itself refuses.
    """
    known = {field.name: field for field in fields(declared)}
    for name in values:
        if name not in known:
            raise InputError(f"{what}: does not read {name!r}; it reads {', '.join(known) or 'no parameter'}")
    for name, field in known.items() if default is None else ():
        if field.default is MISSING and field.default_factory is MISSING and name not in values:
            raise InputError(f"{what}: expected {name}, got nothing")
    checked = {}
    for name, value in values.items():
        hint, field = hints_of(declared)[name], known[name]
        nested = next((kind for kind in (hint, *get_args(hint)) if _is_settings(kind)), None)
        if nested is not None and isinstance(value, Mapping):
            usual = field.default if field.default_factory is MISSING else field.default_factory()
            how = {"what": f"{what}: {name}", "prefix": f"{prefix}{name}."}
            checked[name] = build(nested, value, **how, default=usual if isinstance(usual, nested) else None)
        else:
            checked[name] = tuple(value) if isinstance(value, list) else value
            check_value(hint, checked[name], f"{prefix}{name}")
    return declared(**checked) if default is None else replace(default, **checked)


def check_fields(settings: Any, what: str) -> None:
    """Raise InputError, one line that begins with `what` and the field, for one that is not what its type says."""
    hints = hints_of(type(settings))
    for field in fields(settings):
        check_value(hints[field.name], getattr(settings, field.name), f"{what}{field.name}")


def check_declared(declared: type[Any]) -> None:
    """Raise InputError for settings that cannot be built from a file: a type that nobody knows, a default out of range.

    declared: the dataclass; nothing of it is built.
    """
    try:
        hints = hints_of(declared)
    except (NameError, TypeError, AttributeError) as error:
        raise InputError(f"expected types that its module knows, got: {error}") from None
    for field in fields(declared):
        if field.default is not MISSING:
            check_value(hints[field.name], field.default, f"the default of {field.name}")


def check_constants(member: type[Any]) -> None:
    """Raise InputError for a constant of a class that is not what its `ClassVar` says.

    What a class computes in its place, as a property, is left alone.
    """
    for name, hint in hints_of(member).items():
        if get_origin(hint) is ClassVar and not hasattr(inspect.getattr_static(member, name), "__get__"):
            check_value(get_args(hint)[0], getattr(member, name), name)
