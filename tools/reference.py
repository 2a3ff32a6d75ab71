"""docs/sweep-keys.md and docs/columns.md: every key of a sweep file, every column of results, as the program has them.

    python -m tools.reference

A test compares the pages with the program: whoever changes a key, a bound, a default or a column runs this.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, get_args

import yaml
from pydantic import BaseModel

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import METRICS, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.result.columns import FRAMES
from smoothsweep.sweeps.attacks import MODELS
from smoothsweep.sweeps.attacks import schema_of as attack_model
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.sweeps.training import PLAIN_KIND, LabelSmoothing
from smoothsweep.sweeps.training import schema_of as other_defense_model

KEYS_PAGE, COLUMNS_PAGE = TREE / "docs" / "sweep-keys.md", TREE / "docs" / "columns.md"
HEAD = """# Keys of a sweep file

Look up a key: what it means, its type and range, its default, and an example from a shipped sweep.

* A key below another is written with a dot (`recipe.epochs`), as in `--set recipe.epochs=40` and in a grid.
* `[0, 1)` is a range with 0 and without 1. *required*: there is no default. *its defaults*: those of the keys inside.
* Sizes are in pixels; fractions, rates and accuracies lie in [0, 1].
* An example is followed by the shipped sweep that has it, a file of the same name in `sweeps`.
* Keys that are the same in several places stand in a table once: *as with* says where.

[Sweep files](sweeps.md) explains how keys work together. `python -m tools.reference` writes this page from the schema
that sweep files are checked with.
"""
TOY = """
## Toy experiment

A file with `experiment: toy` has `name`, `grid`, `cells`, `baseline` and `resources` of the [top level](#top-level),
and these.

"""
TITLES = "| key | meaning | type, range | default | example |\n| --- | --- | --- | --- | --- |\n"
ENDLESS = 10**9  # a bound from here on only says that products still fit
LONG_CHOICES, LONG_EXAMPLE = 110, 48  # characters of a cell
FEW = 7  # a model with more keys has rows of its own; others stand below the key that holds them
ALIKE = 3  # so many keys that stand elsewhere are named instead of being written again; within a family any


class Family(NamedTuple):
    """A key with a value of many kinds: heading, kind -> its model, the kind unless named."""

    title: str
    models: dict[str, type[BaseModel]]
    usual: str


FAMILIES = {
    "attack": Family("Attacks", {kind: attack_model(kind) for kind in ATTACKS}, "ppa"),
    "recipe.defense": Family(
        "Defenses",
        {kind: LabelSmoothing if kind == PLAIN_KIND else other_defense_model(kind) for kind in DEFENSES},
        PLAIN_KIND,
    ),
    "prior": Family("Priors", {kind: MODELS[kind] for kind in PRIORS}, ""),
}


class Key(NamedTuple):
    """A row of the page. kind: type and range, `{keys}` for nested models and `{choices}` for many choices."""

    place: str
    meaning: str
    kind: str
    default: str
    models: tuple[type[BaseModel], ...]
    choices: tuple[str, ...]
    name: str  # within its section

    @property
    def same(self) -> tuple[str, str, str, str]:
        """What two keys agree in that are written once."""
        return self.name, self.meaning, self.kind, self.default


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Every key of a model, in the order of the file; the meaning of one that nobody explained is empty."""
    schema, meanings = model.model_json_schema(), _meanings(model)
    for name, info in model.model_fields.items():
        if name == "kind" and len(get_args(info.annotation)) < 2:
            continue
        part, models = schema["properties"][name], tuple(_models_in(info.annotation))
        choices = next((one["enum"] for one in (part, *part.get("anyOf", ())) if "enum" in one), ())
        named = ", ".join(f"`{choice}`" for choice in choices)
        kind = _kind(part)
        if len(named) > LONG_CHOICES:
            kind = kind.replace(named, "{choices}")
        meaning = meanings.get(name) or (_first_line(models[0]) if models else "")
        meaning = re.sub(r"\bNone\b", "null", meaning).removesuffix(".")
        first = meaning.partition(" ")[0].strip(",:;")
        if first.lower() in choices:
            meaning = meaning[:1].lower() + meaning[1:]
        elif first.isalpha():
            meaning = meaning[:1].upper() + meaning[1:]
        default = _default(model, name, part)
        yield Key(
            f"{prefix}{name}", meaning, kind, default, models, tuple(choices) if "{choices}" in kind else (), name
        )


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of this type may be, or hold."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for one in get_args(annotation):
            yield from _models_in(one)


def _kind(part: Mapping[str, Any]) -> str:
    """Type and range of a part of a JSON schema, in words."""
    if "$ref" in part:
        return "{keys}"
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


@cache
def examples() -> dict[tuple[str, str], list[tuple[Any, str]]]:
    """(dotted key, kind of the family around it) -> values and the shipped sweeps that have them, by name."""
    found: dict[tuple[str, str], list[tuple[Any, str]]] = {}

    def note(place: str, value: Any, kind: str) -> None:
        found.setdefault((place, kind), []).append((value, sweep))
        several = place in ("search.space", "search.constraints")  # names of the user's, each with the same keys inside
        for one in value.values() if several else value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and place not in ("grid", "baseline", "cells"):
                own = str(one.get("kind", FAMILIES[place].usual if place in FAMILIES else kind))
                for name, inner in one.items():
                    if name != "kind":
                        note(f"{place}.{name}", inner, own)

    for path in sorted((TREE / "sweeps").glob("*.yaml")):
        raw, sweep = yaml.safe_load(path.read_text(encoding="utf-8")), path.stem
        for name, value in raw.items() if raw.get("experiment") != "toy" else ():
            note(name, value, "")
        varied = [(place, value) for place, values in (raw.get("grid") or {}).items() for value in values]
        varied += [pair for cell in raw.get("cells", ()) for pair in cell.items()]
        for place, value in varied:
            family = next((one for one in FAMILIES if place.startswith(f"{one}.")), "")
            node: Any = raw
            for part in family.split(".") if family else ():
                node = (node or {}).get(part)
            if family not in dict(varied):  # else nobody knows which kind it belongs to
                note(place, value, (node or {}).get("kind", FAMILIES[family].usual) if family else "")
    return found


@dataclass(kw_only=True)
class Section:
    """The keys of one model. kinds: of it, where it is one of several. members: kinds of the family that hold it."""

    model: type[BaseModel]
    place: str
    kinds: tuple[str, ...]
    keys: list[Key]
    members: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    title: str = ""
    printed: list[Key] = field(default_factory=list)

    @property
    def chapter(self) -> str:
        """The heading that it stands below."""
        for place, family in FAMILIES.items():
            if self.members and f"{self.place}.".startswith(f"{place}."):
                return family.title
        return _code(self.place.split(".")[0]) if self.place else self.title

    @property
    def link(self) -> str:
        return f"[{self.title}]({anchor(self.title)})"


def anchor(title: str) -> str:
    """The link to a heading of the same page."""
    return "#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def sections() -> tuple[dict[type[BaseModel], Section], dict[type[BaseModel], str]]:
    """Those of every sweep file, each model once, in the order of the page; the toy experiment's last.

    And of each small model the key below which its own keys stand.
    """
    found: dict[type[BaseModel], Section] = {}
    below: dict[type[BaseModel], str] = {}

    def collect(model: type[BaseModel], place: str, kinds: tuple[str, ...], member: str) -> None:
        if (known := found.get(model)) is not None:
            if known.place != place and place not in known.also:
                known.also.append(place)
            if known.place == place and member and member not in known.members:
                known.members.append(member)
            return
        found[model] = section = Section(
            model=model, place=place, kinds=kinds, keys=[], members=[member] if member else []
        )
        fill(section, model, f"{place}." if place else "", "", member)

    def fill(section: Section, model: type[BaseModel], prefix: str, inside: str, member: str) -> None:
        for key in keys_of(model, prefix):
            section.keys.append(key._replace(name=f"{inside}{key.name}"))
            for one in () if key.place in FAMILIES else key.models:
                own = one.model_fields.get("kind")
                of_several = own is not None and own.is_required() and len(key.models) > 1
                if len(one.model_fields) <= FEW and not of_several and key.place and one is not ImportedClassifier:
                    if one not in below:
                        below[one] = key.place
                        fill(section, one, f"{key.place}.", f"{inside}{key.name}.", member)
                else:
                    collect(one, key.place, tuple(map(str, get_args(own.annotation))) if of_several else (), member)

    collect(InversionSweep, "", (), "")
    for place, family in FAMILIES.items():
        for kind, model in family.models.items():
            collect(model, place, (kind,), kind)
    for one in found.values():
        one.title = f"`{one.place}`" if one.place else "Top level"
        one.title += f", kind {', '.join(one.kinds)}" if one.kinds else ""
        one.title += ", imported" if one.model is ImportedClassifier else ""
    twice = Counter(one.title for one in found.values())
    for one in found.values():
        one.title += f" of {', '.join(one.members)}" if twice[one.title] > 1 else ""
    found[ToySweep] = Section(model=ToySweep, place="", kinds=(), keys=[*keys_of(ToySweep)], title="Toy keys")
    return found, below


class Page:
    """Writes the page."""

    def __init__(self) -> None:
        self.sections, self.below = sections()

    def write(self) -> str:
        """As Markdown."""
        toy, inversion = self.sections.pop(ToySweep), self.sections[InversionSweep]
        parts, every = [HEAD], sorted(self.sections.values(), key=lambda one: bool(one.members))  # families come last
        for chapter, members in groupby(every, key=lambda one: one.chapter):
            rows = "".join(self.section(one) for one in members)
            place = next((key for key, one in FAMILIES.items() if one.title == chapter), None)
            intro = "" if place is None else f"The value of `{place}`: a `kind`, and its keys: {self.links(place)}.\n\n"
            parts.append(f"\n## {chapter}\n\n{intro}{TITLES}{rows}")
        known = {key.same for key in inversion.keys}
        rows = "".join(self.row(key, toy, ("",)) for key in toy.keys if key.same not in known)
        named = {key.choices: key.place for one in reversed(every) for key in reversed(one.keys) if key.choices}
        names = [f"* `{place}`: {', '.join(map(_code, names))}\n" for names, place in reversed(named.items())]
        return "".join([*parts, TOY, TITLES, rows, "\n## Names\n\n", *names])

    def links(self, place: str) -> str:
        """To every kind of a family."""
        models = FAMILIES[place].models.items()
        return ", ".join(f"[{kind}]({anchor(self.sections[model].title)})" for kind, model in models)

    def section(self, one: Section) -> str:
        """A row of what it is, and one for each key that does not stand elsewhere already."""
        one.printed, notes = list(one.keys), [_first_line(one.model)]
        if one.also:
            notes.append(f"The same keys stand under {' and '.join(map(_code, one.also))}.")
        every = list(self.sections.values())
        before = [
            two for two in every[: every.index(one)] if two.chapter == one.chapter or two.place in ("recipe", "data")
        ]
        while before:
            rows = [{key.same for key in other.printed} for other in before]
            known = [[key for key in one.printed if key.same in there] for there in rows]
            alike, other = max(zip(known, before, strict=True), key=lambda pair: len(pair[0]))
            if len(alike) < (1 if one.chapter == other.chapter and one.members else ALIKE):
                break
            notes.append(f"As with {other.link}: {', '.join(_code(key.name) for key in alike)}.")
            one.printed = [key for key in one.printed if key not in alike]
        mark = "" if one.title == one.chapter else f'<a id="{anchor(one.title)[1:]}"></a>'
        said = " ".join([*notes, *([] if one.keys else ["It has no keys of its own."])]).replace("|", "\\|")
        around = one.members or one.kinds or ("",)
        return f"| {mark}**{one.title}** | {said} | | | |\n" + "".join(self.row(k, one, around) for k in one.printed)

    def row(self, key: Key, one: Section, around: Iterable[str]) -> str:
        """A line of the table. around: kinds that an example may be of."""
        meaning, kind = key.meaning, key.kind
        if key.place in FAMILIES:
            null = kind.removeprefix("any").removeprefix("{keys}")
            kind = f"[keys]({anchor(FAMILIES[key.place].title)}) of a kind{null}"
        elif key.models:
            nested = [self.sections[model] for model in key.models if model not in self.below]
            kinds = [f"[{', '.join(two.kinds)}]({anchor(two.title)})" for two in nested if two.kinds]
            meaning += f": {', '.join(kinds)}" if kinds else ""
            words = ["imported" if two.model is ImportedClassifier else "keys" for two in nested]
            links = [f"[{word}]({anchor(two.title)})" for word, two in zip(words, nested, strict=True)]
            places = dict.fromkeys(self.below[model] for model in key.models if model in self.below)
            links = ["keys, below" if place == key.place else f"keys of `{place}`" for place in places] + links
            kind = kind.replace("{keys}", "keys of a kind" if kinds else " or ".join(links))
        if key.choices:
            kind = kind.replace("{choices}", f"one of {len(key.choices)} [names](#names)")
        found = [pair for own in around for pair in examples().get((key.place, own), ())]
        short = [pair for pair in found if len(written(pair[0])) <= LONG_EXAMPLE]
        best = next((pair for pair in short if written(pair[0]) != key.default), short[0] if short else None)
        example = "" if best is None else f"{written(best[0])} ({best[1]})"
        cells = (f"`{key.place}`", *(cell.replace("|", "\\|") for cell in (meaning, kind, key.default, example)))
        return f"| {' | '.join(cells)} |\n"


def _code(text: str) -> str:
    return f"`{text}`"


COLUMNS_HEAD = f"""# Columns

Look up a metric of `results.parquet`, which has a row per trial: what it means, its unit and range, and which
direction is better. Metrics are grouped by who measures them; a judge's are null in sweeps without the judge.

* *values*: a *fraction* in [0, 1] is shown as a percentage; a *number* is shown as it is.
* *better*: what the defender wants, where one direction is better.
* *kind*: utility is what the owner of the model gets, leak what an inversion shows, membership how well an attacker
  tells which images were trained on, integrity what an attacker can make the model answer; a check tells whether the
  others can be trusted. *search*: a search may aim at it or constrain it.
* *Null* in a meaning: why the value may be missing although everything has finished. The column `reasons` gives the
  reason for every null of a row.

Beside a rate of images that its stage chose itself a row has how many there were, in a column of the rate's name with
`_images` behind it. Beside them a row has its trial, its seed, and `recipe`: the report's name of its recipe, which
joins `verdicts.parquet`.
The metrics of a toy experiment are {", ".join(map(_code, TOY_COLUMNS))}. Durations, in seconds, are
{", ".join(map(_code, TIME_COLUMNS))}.
`python -m tools.reference` writes this page from the table that the program reads.

## Metrics

| column | meaning | values | better | kind |
| --- | --- | --- | --- | --- |
"""
FRAMES_HEAD = """
## Frames

`smoothsweep.load_result("store", "quickstart")` gives these frames, `smoothsweep report SWEEP --json` prints them.
Beside the columns below, `recipes` and `attacks` have of every metric above that was measured its mean over the seeds,
and with the endings `_low`, `_high`, `_n` and `_differs` its interval, how many seeds it was measured under, and
whether it is distinguishable from the baseline's; `membership` has the area under the curve of every attack and the
reductions; `search` the objectives and the parameters. `_low` and `_high` are the ends of an interval; that of a
reduction holds for all recipes at once.

| column | meaning | unit |
| --- | --- | --- |
"""


VARIANT = re.compile("_(auc|tpr_fpr1|acc1|acc5|plain)$")  # what tells columns of one measurement apart


def columns_page() -> str:
    """The whole page as Markdown."""
    parts = [COLUMNS_HEAD]
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
    parts.append(FRAMES_HEAD)
    for name, columns in FRAMES.items():
        parts.append(f"| **Frame `{name}`** | | |\n")
        ends = {f"{one.name}{end}" for one in columns for end in ("_low", "_high")}
        for one in (each for each in columns if each.name not in ends):
            names = [each.name for each in columns if each.name in (one.name, f"{one.name}_low", f"{one.name}_high")]
            parts.append(f"| {', '.join(map(_code, names))} | {one.meaning} | {one.unit} |\n")
    return "".join(parts)


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


PAGES = {KEYS_PAGE: lambda: Page().write(), COLUMNS_PAGE: columns_page}

if __name__ == "__main__":
    for file, written_anew in PAGES.items():
        write_file(file, written_anew())
