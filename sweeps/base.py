"""What every part of a sweep file shares: models that refuse extra keys, dotted keys, keys made of core settings.

Keys of a part that core has settings for are made of these (`derived`). Written out are those alone that it has none
for: of the whole sweep and its search, of other trials and imported classifiers, of smoothing beside a defense, of data
that are drawn or read from files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cached_property, lru_cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Strict, ValidationError, create_model, model_validator
from pydantic_core import PydanticCustomError

from smoothsweep.core.checks import present
from smoothsweep.core.declared import STRICT, build, hints_of
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted

MAX_TRIALS = 5_000  # of a sweep, and configurations of a search that tries them all
MAX_KEYS = 32  # that a grid, a cell or a search's space sets
T = TypeVar("T")

Several = Annotated[tuple[T, ...], Strict(False)]  # YAML has lists, no tuples; what is in them stays strict


class Model(BaseModel):
    """Settings that refuse unknown keys, values of another type, NaN and infinity, and do not change once read."""

    model_config = ConfigDict(**STRICT, extra="forbid", frozen=True)
    declared: ClassVar[Any] = None

    @model_validator(mode="before")
    @classmethod
    def _knows_every_key(cls, raw: Any) -> Any:
        """Refuse unknown keys beside the known ones, which pydantic's own error does not tell."""
        unknown = [key for key in raw if key not in cls.model_fields] if isinstance(raw, dict) else ()
        if unknown:
            kind = PydanticCustomError("unknown_key", "unknown key", {"known": list(cls.model_fields)})
            errors: list[Any] = [{"type": kind, "loc": (key,), "input": raw[key]} for key in unknown]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return raw


class Built(Model):
    """Settings of a class of core, which checks them when it is made of them.

    beside: keys that are no parameters of that class. prefix: how it calls a parameter.
    """

    beside: ClassVar[tuple[str, ...]] = ("kind",)
    prefix: ClassVar[str] = ""

    @cached_property
    def built(self) -> Any:
        """An instance of that class. Raises InputError where it refuses the values."""
        what = f"{self.prefix.removesuffix('.')} {getattr(self, 'kind', '')}"
        return build(
            present(self.declared, "declared"), self.model_dump(exclude=set(self.beside)), what=what, prefix=self.prefix
        )

    @model_validator(mode="after")
    def _valid(self) -> Self:
        assert self.built is not None  # asked again whenever what holds it is checked, and made once
        return self


def only_with(model: Model, key: str, chooser: str, choice: str) -> None:
    """Refuse `key` where it could not take effect. Raises ValueError, which pydantic turns into the file's mistake."""
    if getattr(model, key) is not None and getattr(model, chooser) != choice:
        raise ValueError(f"{key}: expected only with {chooser}: {choice}, got {chooser}: {getattr(model, chooser)}")


MAX_LEVELS = 32  # of a dotted key


def set_dotted(raw: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Set raw['a']['b'] = value for key 'a.b', making empty levels on the way. Raises InputError naming `where`."""
    node = raw
    if key.count(".") >= MAX_LEVELS or not all(key.split(".")):
        raise InputError(f"{where}: expected a dotted key of at most {MAX_LEVELS} names, got {quoted(key)}")
    *parents, last = key.split(".")
    for depth, parent in enumerate(parents):
        if node.get(parent) is None:
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            holder = ".".join(parents[: depth + 1])
            raise InputError(f"{where}: {key}: expected {holder} to hold keys, got {quoted(node)}")
    node[last] = value


def first_repeat(values: Sequence[Any]) -> tuple[Any, Any] | None:
    """The first two values that mean the same, as they were given (0.0 and 0, say), if two do."""
    seen: dict[str, int] = {}
    for index, value in enumerate(values):  # as JSON: mappings whatever their order, true not as 1
        meaning = json.dumps(json.loads(json.dumps(value), parse_float=_by_its_size), sort_keys=True)
        if (first := seen.setdefault(meaning, index)) != index:
            return values[first], value
    return None


def _by_its_size(number: str) -> float:
    return int(float(number)) if float(number).is_integer() else float(number)


def dotted_value(settings: Mapping[str, Any], key: str) -> tuple[Any, bool]:
    """The value under a dotted key, and whether the key is there at all (another kind of recipe may not have it)."""
    node: Any = settings
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None, False
        node = node[part]
    return node, True


def derived(
    declared: type[Any],
    base: type[Model] = Model,
    *,
    without: Sequence[str] = (),
    optional: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    usual: Any = None,
) -> Any:  # a `type[Model]` whose keys no type checker can know
    """A model with a key for every field of `declared`, beside what `base` and `more` (name -> (type, default)) have.

    without: fields that a file does not say; optional: fields whose default depends on others, null in a file; usual:
    an instance whose values are the defaults, instead of the dataclass's own.
    What values may be beyond their types is checked by the dataclass itself, when it is built; it is the model's
    `declared`, whose docstring says what its keys mean.
    """
    keys: dict[str, Any] = {
        field.name: _key(declared, field) for field in fields(declared) if field.name not in without
    }
    keys |= {name: (one_of((keys[name][0], None)), None) for name in optional}
    keys |= {name: (keys[name][0], getattr(usual, name)) for name in (keys if usual is not None else ())}
    model = create_model(declared.__name__, __base__=base, __doc__=declared.__doc__, **{**keys, **(more or {})})
    model.declared = declared
    return model


@lru_cache
def _nested(declared: type, usual: Any = None) -> type[Model]:
    return derived(declared, usual=usual)


def _key_type(hint: Any) -> Any:
    """The type of a parameter as a file gives it: keys for a dataclass, lists for tuples."""
    if is_dataclass(hint):
        return _nested(hint)
    if get_origin(hint) is Annotated:
        return Annotated[(_key_type(hint.__origin__), *hint.__metadata__)]
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


def _key(declared: type, field: Field[Any]) -> tuple[Any, Any]:
    hint, default = hints_of(declared)[field.name], field.default
    if default is MISSING:
        default = ... if field.default_factory is MISSING else field.default_factory()
    if not is_dataclass(default):
        return _key_type(hint), default
    if not is_dataclass(hint):
        return _key_type(hint), _nested(type(default))()
    # A field whose default has other values than its dataclass: what a file leaves out is as there.
    model = _nested(hint) if default == hint() else _nested(type(default), default)
    return model, model()
