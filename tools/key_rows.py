"""One row of docs/sweep-keys.md for every key of a model: type and range, default, meaning."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.derived import DECLARED

_NAMES = ("Adam", "None")
_STATED = re.compile(r"(?:^|(?<=[.;:] ))((?:[a-z_0-9]+, )*[a-z_0-9]+): ")
_ENDLESS = 10**9  # a bound from here on only says that products still fit
_MOST_OF_A_CELL = 110  # characters that choices may take in it
_FAR = 10**12
_PAIR = "list of 2 numbers"


@dataclass(frozen=True, kw_only=True)
class Key:
    """A row of the page.

    place: dotted key. name: its last part. kind: type and range, `{keys}` for nested ones, `{choices}` for many.
    default: as a file writes it. meaning: may be empty, which a test refuses. models: those that it may hold. choices:
    values that are too many for the cell.
    """

    place: str
    name: str
    kind: str
    default: str
    meaning: str
    models: tuple[type[BaseModel], ...] = ()
    choices: tuple[str, ...] = ()


def keys_of(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    """Every key of the model, in the order of the file."""
    schema = model.model_json_schema()
    stated = _meanings(model)
    for name, field in model.model_fields.items():
        if name == "kind" and len(get_args(field.annotation)) < 2:
            continue
        part, models = schema["properties"][name], tuple(models_in(field.annotation))
        kind, choices = _kind_of(part, schema.get("$defs", {})), _choices(part)
        long = len(", ".join(choices)) > _MOST_OF_A_CELL
        if long:
            kind = kind.replace(", ".join(choices), "{choices}")
        if (bare := kind.removesuffix(" or null")) in ("integer", "number", _PAIR):
            kind = _with_range(kind, _range_of(model, name, bare))
        meaning = stated.get(name) or (first_line(models[0]) if models else "")
        yield Key(
            place=f"{prefix}{name}",
            name=name,
            kind=kind,
            default=_default(model, name, part),
            meaning=_sentence(meaning, part.get("enum", ())),
            models=models,
            choices=choices if long else (),
        )


def _sentence(meaning: str, choices: Sequence[Any]) -> str:
    """The meaning as a cell has it."""
    meaning = re.sub(r"\bNone\b", "null", meaning).removesuffix(".")
    first = meaning.partition(" ")[0].strip(",:;")
    is_name = not first.isalpha() or first in choices
    return meaning if is_name else meaning[:1].upper() + meaning[1:]


def first_line(model: type[BaseModel]) -> str:
    """The first paragraph of its docstring."""
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of this type may be, or hold."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for one in get_args(annotation):
            yield from models_in(one)


def _choices(part: Mapping[str, Any]) -> tuple[str, ...]:
    for one in (part, *part.get("anyOf", ())):
        if "enum" in one:
            return tuple(f"`{choice}`" for choice in one["enum"])
    return ()


def _kind_of(part: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Type and range in words."""
    if "$ref" in part:
        return "{keys}"
    for several in ("anyOf", "oneOf"):
        if several in part:
            return " or ".join(dict.fromkeys(_kind_of(one, named) for one in part[several]))
    if "const" in part or "enum" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        return _list_of(part, named)
    if part.get("type") == "object":
        inner = part.get("additionalProperties")
        values = _kind_of(inner, named) if isinstance(inner, Mapping) else "any"
        return "mapping" if values == "any" else f"mapping to {values}"
    kind = {"boolean": "true or false", "string": "text"}.get(part.get("type", ""), part.get("type"))
    return _with_range(kind or "any", _bounds(part))


def _list_of(part: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    inner = part["prefixItems"] if "prefixItems" in part else [part.get("items", {})]
    kinds = [*dict.fromkeys(_kind_of(one, named) for one in inner)]
    if len(kinds) > 1:
        return f"list of {', '.join(kinds)}"
    words = re.sub(r"^(integer|number|mapping|text|list)", r"\1s", kinds[0]).replace("any", "values")
    least = part.get("minItems")
    count = f"{len(inner)} " if "prefixItems" in part else f"{least} or more " if least else ""
    return f"list of {count}{words}"


def _bounds(part: Mapping[str, Any]) -> str:
    """`>= 1`, `in [0, 1)`, or nothing."""
    low, high = part.get("minimum"), part.get("maximum")
    above, below = part.get("exclusiveMinimum"), part.get("exclusiveMaximum")
    low, high = (None if one is None or abs(one) >= _ENDLESS else one for one in (low, high))
    return _interval(low if above is None else above, high if below is None else below, above, below)


def _interval(low: float | None, high: float | None, above: Any, below: Any) -> str:
    """Bounds as short as they can be said. above, below: None where the bound itself is included."""
    left, right = "[" if above is None else "(", "]" if below is None else ")"
    if low is not None and high is not None:
        return f"in {left}{_number(low)}, {_number(high)}{right}"
    if low is not None:
        return f"{'≥' if above is None else '>'} {_number(low)}"
    return "" if high is None else f"{'≤' if below is None else '<'} {_number(high)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def _with_range(kind: str, bounds: str) -> str:
    words, null, rest = kind.partition(" or null")
    return f"{words} {bounds}".strip() + null + rest


def _range_of(model: type[BaseModel], name: str, kind: str) -> str:
    """The bounds that the dataclass of a model checks when it is built, from what it answers to absurd values."""
    low = high = above = below = None
    for value in (-_FAR, _FAR) if kind != _PAIR else ((-_FAR, -_FAR),):
        said = _refusal(model, name, value)
        if inside := re.search(r"a number in ([\[(])(\S+), (\S+)([\])])", said):
            low, high = float(inside[2]), float(inside[3])
            above, below = inside[1] == "(" or None, inside[4] == ")" or None
        elif pair := re.search(r"a pair with (\S+) < first <= second(?: <= (\S+))?", said):
            low, high, above = float(pair[1]), float(pair[2]) if pair[2] else None, True
        elif least := re.search(r"number (of at least|above) (\S+)", said):
            low, above = float(least[2]), (least[1] == "above") or None
        elif (most := re.search(r"number of at most (\S+)", said)) and float(most[1]) < _ENDLESS:
            high = float(most[1])
    return _interval(low, high, above, below)


def _refusal(model: type[BaseModel], name: str, value: int | tuple[int, int]) -> str:
    """What the dataclass expects of this parameter instead of the value; empty where it takes it."""
    declared = next((DECLARED[one] for one in model.__mro__ if one in DECLARED), None)
    if declared is None:
        return ""
    try:
        declared(**{name: value})
    except InputError as error:
        place, _, expected = str(error).partition(": expected ")
        return expected.partition(", got")[0] if place.endswith(name) else ""
    except TypeError:  # another parameter has no default
        return ""
    return ""


def _default(model: type[BaseModel], name: str, part: Mapping[str, Any]) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "*required*"
    if field.default_factory is not None:
        return written(field.get_default(call_default_factory=True))
    value = part.get("default")
    if isinstance(field.default, BaseModel):
        return _nested_default(field.default)
    judged = getattr(getattr(model, "declared", None), "where", {}).get(name)
    if judged:
        return f"{written(judged[2])} with {judged[0]} {judged[1]}"
    if value is None and (usual := _usual(model, name)) is not None:
        return f"null: {written(usual)}"
    return written(value)


def _nested_default(default: BaseModel) -> str:
    """The kind, or what differs from the defaults of its keys."""
    if (kind := getattr(default, "kind", None)) is not None:
        return f"kind `{kind}`"
    usual = {name: field.get_default(call_default_factory=True) for name, field in type(default).model_fields.items()}
    other = {name: getattr(default, name) for name in usual if getattr(default, name) != usual[name]}
    return written(other) if other else "its defaults"


def _usual(model: type[BaseModel], name: str) -> Any:
    """What null stands for, where the dataclass of a model has a default that its sweep key leaves open."""
    declared = next((DECLARED[one] for one in model.__mro__ if one in DECLARED), None)
    value = getattr(declared, name, None)
    return None if isinstance(value, property) else value


def written(value: Any) -> str:
    """As a file writes it; a number of many digits is rounded."""
    return "null" if value is None else f"`{json.dumps(_short(value), ensure_ascii=False)}`"


def _short(value: Any) -> Any:
    if isinstance(value, float) and len(repr(value)) > 8:
        return float(f"{value:.4g}")
    if isinstance(value, tuple | list):
        return [_short(one) for one in value]
    return {key: _short(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def unexplained(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Dotted keys of the model without a meaning."""
    return [key.place for key in keys_of(model, prefix) if not key.meaning.strip()]


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Key -> what its class says of it: in the docstring, or in a comment beside the field."""
    found: dict[str, str] = {}
    for owner in (*reversed(model.__mro__), *reversed(DECLARED.get(model, object).__mro__)):
        if owner.__module__.partition(".")[0] not in ("pydantic", "builtins", "abc", "typing"):
            found |= _documented(owner) | _commented(owner)
    return found


def _documented(owner: type) -> dict[str, str]:
    """Field -> what the docstring says of it, to the next field or the end of the paragraph."""
    fields = {name for one in owner.__mro__ for name in inspect.get_annotations(one)}
    fields |= set(getattr(owner, "model_fields", ())) | {
        name for one in DECLARED.get(owner, object).__mro__ for name in inspect.get_annotations(one)
    }
    found: dict[str, str] = {}
    for paragraph in inspect.cleandoc(owner.__doc__ or "").split("\n\n"):
        line = " ".join(paragraph.split())
        marks = [mark for mark in _STATED.finditer(line) if set(mark[1].split(", ")) <= fields]
        ends = [*(one.start() for one in marks[1:]), len(line)]
        for mark, end in zip(marks, ends[: len(marks)], strict=True):
            found |= dict.fromkeys(mark[1].split(", "), _uncapitalised(line[mark.end() : end].strip(" ;.")))
    return found


def _uncapitalised(sentence: str) -> str:
    """With a small first letter, as words that may come before it want; names, `GPUs` and the like keep theirs."""
    is_name = sentence.startswith(_NAMES) or sentence[1:2].isupper()
    return sentence if is_name else sentence[:1].lower() + sentence[1:]


@cache
def _commented(owner: type) -> dict[str, str]:
    """Field -> the comment beside it."""
    try:
        lines = textwrap.dedent(inspect.getsource(owner)).splitlines()
    except (OSError, TypeError):  # made at run time
        return {}
    [statement] = ast.parse("\n".join(lines)).body
    found = {}
    for node in statement.body if isinstance(statement, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _, mark, said = lines[(node.end_lineno or 1) - 1].partition("  # ")
            if mark and "noqa" not in said:
                found[node.target.id] = said.strip()
    return found
