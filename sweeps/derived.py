"""The schema of settings that are declared in core: keys, types and defaults of a dataclass, none written twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, Strict, create_model

from smoothsweep.core.bounds import Checked
from smoothsweep.sweeps.base import Model

DECLARED: dict[type[Model], type] = {}
"""Model -> the dataclass that it was made from, whose docstring says what its keys mean."""


def derived(
    declared: type[Any],
    base: type[Model] = Model,
    *,
    without: Sequence[str] = (),
    optional: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Any:  # a `type[Model]` whose keys no type checker can know
    """A model with a key for every field of `declared`, beside what `base` and `more` (name -> (type, default)) have.

    without: fields that a file does not say; optional: fields whose default depends on others, null in a file.
    What values may be beyond their types is checked by the dataclass itself, when it is built.
    """
    keys: dict[str, Any] = {
        field.name: _key(declared, field) for field in fields(declared) if field.name not in without
    }
    keys |= {name: (one_of((keys[name][0], None)), None) for name in optional}
    model = create_model(declared.__name__, __base__=base, __doc__=declared.__doc__, **{**keys, **(more or {})})
    DECLARED[model] = declared
    return model


@lru_cache
def _hints(declared: type) -> dict[str, Any]:
    return get_type_hints(declared, include_extras=True)


@lru_cache
def _nested(declared: type) -> type[Model]:
    return derived(declared)


@lru_cache
def _nested_like(made: Any) -> type[Model]:
    """Model of a field whose default has other values than its dataclass: what a file leaves out is as there."""
    keys: dict[str, Any] = {
        field.name: (_key(type(made), field)[0], getattr(made, field.name)) for field in fields(made)
    }
    model = create_model(type(made).__name__, __base__=Model, __doc__=type(made).__doc__, **keys)
    DECLARED[model] = type(made)
    return model


def _key_type(hint: Any) -> Any:
    """The type of a parameter as a file gives it: keys for a dataclass, lists for tuples."""
    if is_dataclass(hint):
        return _nested(hint)
    if get_origin(hint) is Annotated:
        return Annotated[(_key_type(hint.__origin__), *map(_validator, hint.__metadata__))]
    arguments = tuple(_key_type(member) for member in get_args(hint))
    if get_origin(hint) is tuple:  # YAML has lists, no tuples; what is in them stays strict
        listed: Any = GenericAlias(tuple, arguments)
        return Annotated[listed, Strict(False)]
    if get_origin(hint) in (Union, UnionType):
        return one_of(arguments)
    return hint


def one_of(types: tuple[Any, ...]) -> Any:
    """Their union, made at run time."""
    union: Any = Union
    return union[types]


def one_value(value: str) -> Any:
    """The type of this value alone, made at run time."""
    literal: Any = Literal
    return literal[value]


def _validator(bound: Any) -> Any:
    """A bound as pydantic knows it."""
    return AfterValidator(bound.check) if isinstance(bound, Checked) else bound


def _key(declared: type, field: Field[Any]) -> tuple[Any, Any]:
    hint, default = _hints(declared)[field.name], _default(field)
    if is_dataclass(default) and is_dataclass(hint):
        model = _nested(hint) if default == hint() else _nested_like(default)
        return model, model()
    return _key_type(hint), _nested(type(default))() if is_dataclass(default) else default


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is MISSING:
        return ...
    return field.default_factory()
