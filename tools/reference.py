"""docs/sweep-keys.md and docs/columns.md: every key of a sweep file, every column of results, as the program has them.

    python -m tools.reference

A test compares their tables with the program: whoever changes a key, a bound, a default or a column runs this.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.same_code import TREE
from smoothsweep.orchestrator.result.sweep_result import FRAMES
from smoothsweep.sweeps.parts import attack_model
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.sweeps.training import defense_model
from tools.marked import with_tables

TOY, TOY_TITLE = "toy", "Toy experiment"
TITLES = "| key | meaning | type, range | default |\n| --- | --- | --- | --- |\n"
CHAPTERS = ("recipe.defense", "recipe", "attack", "prior", "judges", "search", "data", "public", "resources")
"""Keys whose own keys stand below a heading; those of others stay beside the key that holds them."""
ENDLESS = 10**9  # a bound from here on only says that products still fit

KINDS: dict[str, list[tuple[str, type[BaseModel]]]] = {
    "attack": [(kind, attack_model(kind)) for kind in ATTACKS],
    "recipe.defense": [(kind, defense_model(kind)) for kind in DEFENSES],
}


@dataclass(kw_only=True)
class Key:
    """A row of the page: what is the same of a key in all of its places.

    Attributes:
        kind: Type and range.
        models: What reads its value, where that has keys of its own: (kind, or nothing, and model) of each.
        places: Whole name -> the kinds, of what is around it, that have the key.
    """

    meaning: str
    kind: str
    default: str
    models: list[tuple[str, type[BaseModel]]]
    places: dict[str, list[str]] = field(default_factory=dict)


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Key]]:
    """Name and row of every key, in the order of the file; the meaning of one that nobody explained is empty."""
    properties, meanings = model.model_json_schema()["properties"], _meanings(model)
    for name, info in model.model_fields.items():
        if name == "kind" and len(get_args(info.annotation)) < 2:
            continue
        part, models = properties[name], KINDS.get(f"{prefix}{name}") or [*_models_in(info.annotation)]
        meaning = meanings.get(name) or (_first_line(models[0][1]) if models else "")
        meaning = re.sub(r"\bNone\b", "null", meaning).removesuffix(".")
        first = meaning.partition(" ")[0].strip(",:;")
        if any(first.lower() in one.get("enum", ()) for one in (part, *part.get("anyOf", ()))):
            meaning = meaning[:1].lower() + meaning[1:]
        elif first.isalpha():
            meaning = meaning[:1].upper() + meaning[1:]
        kind = _kind(part).replace("any", "keys") if models else _kind(part)
        yield name, Key(meaning=meaning, kind=kind, default=_default(model, name, part), models=models)


def _models_in(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """(kind, model) of everything that a value of this type may be, or hold; the kind is empty where there is none."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        own = annotation.model_fields.get("kind")
        yield ", ".join(get_args(own.annotation)) if own is not None and own.is_required() else "", annotation
    else:
        for one in get_args(annotation):
            yield from _models_in(one)


def _kind(part: Mapping[str, Any]) -> str:
    """Type and range of a part of a JSON schema, in words."""
    if "$ref" in part:
        return "keys"
    if several := part.get("anyOf", part.get("oneOf")):
        return " or ".join(dict.fromkeys(map(_kind, several)))
    if "const" in part or "enum" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        inner = part.get("prefixItems", [part.get("items", {})])
        kinds = [*dict.fromkeys(map(_kind, inner))]
        if len(kinds) > 1:
            return f"list of {', '.join(kinds)}"
        words = re.sub(r"^(integer|number|mapping|text|list)", r"\1s", kinds[0]).replace("any", "values")
        least = part.get("minItems")
        return f"list of {f'{len(inner)} ' if 'prefixItems' in part else f'{least} or more ' if least else ''}{words}"
    if part.get("type") == "object":
        inner = part.get("additionalProperties")
        values = _kind(inner) if isinstance(inner, Mapping) else "any"
        return "mapping" if values == "any" else f"mapping to {values}"
    kind = {"boolean": "true or false", "string": "text"}.get(part.get("type", ""), part.get("type") or "any")
    return f"{kind} {_bounds(part)}".strip()


def _bounds(part: Mapping[str, Any]) -> str:
    """`≥ 1`, `in [0, 1)`, or nothing."""
    low, high = part.get("exclusiveMinimum", part.get("minimum")), part.get("exclusiveMaximum", part.get("maximum"))
    low, high = (None if one is None or abs(one) >= ENDLESS else f"{one:.12g}" for one in (low, high))
    above, below = "exclusiveMinimum" in part, "exclusiveMaximum" in part
    if low is not None and high is not None:
        return f"in {'(' if above else '['}{low}, {high}{')' if below else ']'}"
    if low is not None:
        return f"{'>' if above else '≥'} {low}"
    return "" if high is None else f"{'<' if below else '≤'} {high}"


def _default(model: type[BaseModel], name: str, part: Mapping[str, Any]) -> str:
    info = model.model_fields[name]
    if info.is_required():
        return "*required*"
    if info.default_factory is not None:
        return written(info.get_default(call_default_factory=True))
    if isinstance(info.default, BaseModel):
        if (kind := getattr(info.default, "kind", None)) is not None:
            return f"kind `{kind}`"
        inner = type(info.default).model_fields.items()
        other = {key: getattr(info.default, key) for key, one in inner}
        other = {key: other[key] for key, one in inner if other[key] != one.get_default(call_default_factory=True)}
        return written(other) if other else "its defaults"
    if judged := getattr(getattr(model, "declared", None), "where", {}).get(name):
        return f"{written(judged[2])} with {judged[0]} {judged[1]}"
    value = part.get("default")
    # what null stands for, where the sweep key leaves it open
    usual = next((getattr(found, name) for found in map(_declared, model.__mro__) if hasattr(found, name)), None)
    if value is None and usual is not None and not isinstance(usual, property):
        return f"null: {written(usual)}"
    return written(value)


def written(value: Any) -> str:
    """As a file writes it; a number of many digits is rounded."""
    return "null" if value is None else f"`{json.dumps(_short(value), ensure_ascii=False)}`"


def _short(value: Any) -> Any:
    if isinstance(value, float) and len(repr(value)) > 8:
        return float(f"{value:.4g}")
    if isinstance(value, tuple | list):
        return [_short(one) for one in value]
    return {key: _short(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _first_line(model: type) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Key -> what its class says of it: in the docstring, or in a comment beside the field."""
    found: dict[str, str] = {}
    for owner in (*reversed(model.__mro__), *reversed(_declared(model).__mro__)):
        if owner.__module__.partition(".")[0] not in ("pydantic", "builtins", "abc", "typing"):
            found |= _documented(owner) | _commented(owner)
    return found


def _declared(model: type) -> type:
    """The dataclass that a model was made from."""
    return vars(model).get("declared") or object


def _documented(owner: type) -> dict[str, str]:
    """Field -> what the docstring says of it, to the next field or the end of the paragraph."""
    fields = {name for one in owner.__mro__ for name in inspect.get_annotations(one)}
    fields |= set(getattr(owner, "model_fields", ())) | {
        name for one in _declared(owner).__mro__ for name in inspect.get_annotations(one)
    }
    found: dict[str, str] = {}
    for paragraph in inspect.cleandoc(owner.__doc__ or "").split("\n\n"):
        line = " ".join(paragraph.split())
        stated = re.finditer(r"(?:^|(?<=[.;:] ))((?:[a-z_0-9]+, )*[a-z_0-9]+): ", line)
        marks = [mark for mark in stated if set(mark[1].split(", ")) <= fields]
        ends = [*(one.start() for one in marks[1:]), len(line)]
        for mark, end in zip(marks, ends[: len(marks)], strict=True):
            found |= dict.fromkeys(mark[1].split(", "), line[mark.end() : end].strip(" ;."))
    return found


@cache
def _commented(owner: type) -> dict[str, str]:
    """Field -> the comment beside it."""
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # made at run time
        return {}
    return dict(re.findall(r"^ +(\w+): [^#\n]*  # (?!noqa)(.*)$", source, re.MULTILINE))


class Page:
    """The page of keys: by heading its rows, each a `Key` or the line of a kind."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, ...], Key] = {}
        self.rows: dict[str, list[Key | str]] = {}
        self.stands: dict[type[BaseModel], str] = {}  # model -> below which key its own keys stand
        self.walk(InversionSweep)
        self.walk(ToySweep, of=TOY, heading=TOY_TITLE)

    def walk(self, model: type[BaseModel], place: str = "", of: str = "", heading: str = "") -> list[str]:
        """Note the keys of a model and of those inside, and return its own.

        of: the kind that has them; heading: where new ones stand, empty for the place's own.
        """
        names, prefix = [], f"{place}." if place else ""
        rows = self.rows.setdefault(heading or heading_of(prefix), [])
        for name, key in keys_of(model, prefix):
            names.append(name)
            whole, models = f"{prefix}{name}", key.models
            if models and all(self.stands.get(one, whole) != whole for _, one in models):
                key.kind, models = key.kind.replace("keys", f"keys of `{self.stands[models[0][1]]}`"), []
            same = (name, key.meaning, key.kind, key.default)
            if same not in self.keys:
                rows.append(key)
            self.keys.setdefault(same, key).places.setdefault(whole, []).append(of)
            for kind, inner in models:
                self.stands.setdefault(inner, whole)
                inside = self.rows.setdefault(heading or heading_of(f"{whole}."), [])
                at = len(inside)
                own = ", ".join(map(_code, self.walk(inner, whole, kind or of, heading))) or "none of its own"
                if kind:
                    inside.insert(at, f"| `{whole}`, kind `{kind}` | {_cell(_first_line(inner))} Keys: {own} | | |\n")
        return names

    def write(self) -> str:
        """As Markdown."""
        several = Counter(place for key in self.keys.values() for place in key.places)
        parts = []
        for heading, rows in self.rows.items():
            lines = [row if isinstance(row, str) else self.row(row, several) for row in rows]
            parts.append(f"\n## {heading}\n\n{TITLES}{''.join(lines)}")
        return "".join(parts)

    def row(self, key: Key, several: Mapping[str, int]) -> str:
        """A line of the table. several: how many rows a place has."""
        names = []
        for place, kinds in key.places.items():
            of = ", ".join(filter(None, dict.fromkeys(kinds)))
            names.append(f"`{place}`{f' of {of}' if of and several[place] > 1 else ''}")
        cells = ("; ".join(names), *map(_cell, (key.meaning, key.kind, key.default)))
        return f"| {' | '.join(cells)} |\n"


def heading_of(prefix: str) -> str:
    """What the keys that begin so stand below."""
    return next((_code(one) for one in CHAPTERS if prefix.startswith(f"{one}.")), "Top level")


def anchor(title: str) -> str:
    """The link to a heading of the same page."""
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`"


VARIANT = re.compile("_(auc|tpr_fpr1|acc1|acc5|plain)$")  # what tells columns of one measurement apart


def metrics_table() -> str:
    """What is measured, by who measures it."""
    parts = ["| column | meaning | values | better | kind |\n| --- | --- | --- | --- | --- |\n"]
    for by, metrics in groupby(METRICS, lambda one: one.measured_by):
        title, said = f"The {by}", f"Measured of every {by}, whatever the judges."
        if by in JUDGES:
            title, said = f"Judge `{by}`", _first_line(JUDGES[by])
        parts.append(f'| <a id="{anchor(title)[1:]}"></a>**{title}** | {said} | | | |\n')
        rows: list[list[str]] = []
        before = ""
        for metric in metrics:
            name, meaning, *rest = _metric(metric)
            what, before = before, VARIANT.sub("", metric.key)
            same = metric.description.startswith("The same ") or before == what
            if rows and rows[-1][2:] == rest and same:
                rows[-1][:2] = f"{rows[-1][0]}, {name}", f"{rows[-1][1]} {meaning}"
            else:
                rows.append([name, meaning, *rest])
        parts += [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join(parts)


def frames_table() -> str:
    """The columns of a result's frames, one that several have alike once."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for frame, columns in FRAMES.items():
        ends = {f"{one.name}{end}" for one in columns for end in ("_low", "_high")}
        for one in (each for each in columns if each.name not in ends):
            names = [each.name for each in columns if each.name in (one.name, f"{one.name}_low", f"{one.name}_high")]
            rows.setdefault((", ".join(map(_code, names)), one.meaning, one.unit), []).append(_code(frame))
    lines = [f"| {' | '.join(row)} | {', '.join(frames)} |\n" for row, frames in rows.items()]
    return "".join(["| column | meaning | unit | frames |\n| --- | --- | --- | --- |\n", *lines])


def _metric(metric: Metric) -> tuple[str, ...]:
    ceiling = f" Ceiling: `{metric.ceiling}`." if metric.ceiling else ""
    null = f" *Null*: {metric.null}." if metric.null else ""
    kind = f"{metric.group}, search" if metric.searched else metric.group
    label = metric.label[:1].upper() + metric.label[1:]
    meaning = f"**{label}.** {metric.description}{ceiling}{null}".replace("|", "\\|")
    values = "fraction" if metric.unit == "percent" else "number"
    if values == "number" and metric.range is not None:
        low, high = metric.range
        values = f"number ≥ {low:g}" if high == float("inf") else f"number in [{low:g}, {high:g}]"
    return _code(metric.key), meaning, values, metric.better or "", kind


TABLES = {
    TREE / "docs" / "sweep-keys.md": {"keys": lambda: Page().write()},
    TREE / "docs" / "columns.md": {"metrics": metrics_table, "frames": frames_table},
}


def page(file: Path) -> str:
    """The text of a page with its tables written anew."""
    tables = {name: table() for name, table in TABLES[file].items()}
    return with_tables(file.read_text(encoding="utf-8"), tables, file)


if __name__ == "__main__":
    for file in TABLES:
        write_file(file, page(file))
