"""docs/sweep-keys.md, every key of a sweep file, from the schema that the program itself checks files with.

    python -m tools.keys

A test compares the page with the schema: whoever changes a key, a bound or a default runs this.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.files import write_file
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.tree import TREE
from smoothsweep.sweeps.attacker import MODELS
from smoothsweep.sweeps.attacks import schema_of as attack_model
from smoothsweep.sweeps.defenses import schema_of as defense_model
from smoothsweep.sweeps.derived import DECLARED
from smoothsweep.sweeps.schema import InversionSweep

PAGE = TREE / "docs" / "sweep-keys.md"
HEAD = """# Keys of a sweep file

Look up a key: its type and range, its default, an example from a shipped sweep, and what it means. Written by
`python -m tools.keys` from the schema that files are checked with, and compared with it by a test.

A key below another is written with a dot (`recipe.epochs`), as in `--set recipe.epochs=40` and in a grid.
*required*: there is no default.
[Sweep files](sweeps.md) explains how they work together.
"""
FAMILIES = {
    "attack": ("Attacks", ATTACKS, attack_model),
    "recipe.defense": ("Defenses", DEFENSES, defense_model),
    "prior": ("Priors", PRIORS, MODELS.__getitem__),
}
"""Key -> heading, table and model of each member: what a family adds below the key."""
_STATED = re.compile(r"(?:^|(?<=[.;:] )|(?<=\n))((?:[a-z_0-9]+, )*[a-z_0-9]+): ")


@dataclass(frozen=True, kw_only=True)
class Key:
    """A row of the page. place: dotted; kind: type and range; default: as a file writes it; meaning: may be empty."""

    place: str
    kind: str
    default: str
    meaning: str


def page() -> str:
    """The whole page as Markdown."""
    examples = _examples()
    said: dict[type[BaseModel], str] = {}
    parts = [HEAD, *_sections(InversionSweep, "", "The sweep", examples, said)]
    for place, (title, table, model_of) in FAMILIES.items():
        parts.append(f"\n# {title}\n\nThe value of `{place}`: a `kind`, and its keys.\n")
        for kind in table:
            parts += _sections(model_of(kind), f"{place}.", f"`{place}`, kind {kind}", examples, said)
    return "".join(parts)


def _sections(
    model: type[BaseModel], prefix: str, title: str, examples: Mapping[str, str], said: dict[type[BaseModel], str]
) -> Iterator[str]:
    """A section for the model, and one for each that a key of it may hold. said: model -> the section that has it."""
    if model in said:
        yield f"\n## {title}\n\nIts keys are those of {said[model]}.\n"
        return
    said[model] = title
    yield _section(title, [*keys_of(model, prefix)], examples, _first_line(model))
    for name, field in model.model_fields.items():
        place = f"{prefix}{name}"
        for one in () if place in FAMILIES else _models_in(field.annotation):
            kinds = one.model_fields.get("kind")
            chosen = f"`{place}`" + (f", kind {_choices_of(kinds.annotation)}" if kinds is not None else "")
            yield from _sections(one, f"{place}.", chosen, examples, said)


def _first_line(model: type[BaseModel]) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def keys_of(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    """Every key of the model, in the order of the file."""
    schema = model.model_json_schema()
    stated = _meanings(model)
    for name, field in model.model_fields.items():
        if name == "kind":
            continue
        part = schema["properties"][name]
        nested = [*_models_in(field.annotation)]
        keys = bool(nested) and isinstance(part.get("default"), dict)
        default = "required" if field.is_required() else "see below" if keys else _written(part.get("default"))
        meaning = stated.get(name) or (_first_line(nested[0]) if len(nested) == 1 else "")
        kind = _kind_of(part, schema.get("$defs", {}))
        yield Key(place=f"{prefix}{name}", kind=kind, default=default, meaning=meaning)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for one in get_args(annotation):
            yield from _models_in(one)


def _choices_of(annotation: Any) -> str:
    return ", ".join(str(one) for one in get_args(annotation))


def _kind_of(part: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Type and range in words."""
    if "$ref" in part:
        return "keys"
    for several in ("anyOf", "oneOf"):
        if several in part:
            return " or ".join(dict.fromkeys(_kind_of(one, named) for one in part[several]))
    if "const" in part or "enum" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    kind = {"array": "list", "object": "keys", "boolean": "true or false"}.get(part.get("type", ""), part.get("type"))
    bounds = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
        "minItems": "{} or more",
    }
    said = [words.format(f"{part[key]:g}") for key, words in bounds.items() if key in part and abs(part[key]) < 10**9]
    return ", ".join([kind or "any", *said])


def _written(value: Any) -> str:
    return "null" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Key -> what its class says of it: in the docstring, or in a comment beside the field."""
    found: dict[str, str] = {}
    for owner in (*reversed(model.__mro__), *reversed(DECLARED.get(model, object).__mro__)):
        text = inspect.cleandoc(owner.__doc__ or "") if owner.__module__.startswith("smoothsweep.") else ""
        line = " ".join(text.split())
        marks = [*_STATED.finditer(line)]
        for mark, end in zip(marks, [*(one.start() for one in marks[1:]), len(line)][: len(marks)], strict=True):
            found |= dict.fromkeys(mark.group(1).split(", "), line[mark.end() : end].strip(" ;."))
        found |= _commented(owner)
    return found


@cache
def _commented(owner: type) -> dict[str, str]:
    """Field -> the comment beside it."""
    if not owner.__module__.startswith("smoothsweep."):
        return {}
    try:
        lines = inspect.getsource(owner).splitlines()
    except OSError:  # made at run time
        return {}
    [statement] = ast.parse("\n".join(lines)).body  # every class of ours stands at the margin
    found = {}
    for node in statement.body if isinstance(statement, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _, mark, said = lines[(node.end_lineno or 1) - 1].partition("  # ")
            if mark and "noqa" not in said:
                found[node.target.id] = said.strip()
    return found


def _examples() -> dict[str, str]:
    """Place -> a value of it in a shipped sweep that is not the default, with the sweep's name."""
    found: dict[str, str] = {}
    for path in sorted((TREE / "sweeps").glob("*.yaml")):
        for place, value in _flat(yaml.safe_load(path.read_text(encoding="utf-8")), ""):
            text = json.dumps(value, ensure_ascii=False)
            if len(text) < 60:
                found.setdefault(place, f"`{text}` ({path.stem})")
    return found


def _flat(node: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            if at in ("grid.", "baseline."):
                yield from ((str(key), one) for one in (value if isinstance(value, list) else [value]))
            else:
                yield f"{at}{key}", value
                yield from _flat(value, f"{at}{key}.")
    elif isinstance(node, list) and at == "cells.":
        for one in node:
            yield from ((str(key), value) for key, value in one.items())


def _section(title: str, keys: list[Key], examples: Mapping[str, str], first: str = "") -> str:
    head = f"\n## {title}\n\n" + (f"{first}\n\n" if first else "")
    if not keys:
        return head + "It has no keys.\n"
    rows = "".join(
        f"| `{key.place}` | {_cell(key.kind)} | {_cell(key.default)} | {_cell(examples.get(key.place, ''))} "
        f"| {_cell(key.meaning)} |\n"
        for key in keys
    )
    return f"{head}| key | type, range | default | example | meaning |\n| --- | --- | --- | --- | --- |\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write_file(PAGE, page())
