"""Examples for docs/sweep-keys.md: what the shipped sweeps write at each key, by the kind it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from smoothsweep.core.tree import TREE
from tools.key_rows import written

USUAL_KIND = {"attack": "ppa", "recipe.defense": "label_smoothing"}
"""Key of a family -> the kind of a file that names none."""

NAMED = ("search.space", "search.constraints")
"""Mappings whose keys are names of the user's, each with the same keys inside."""

MOST_CHARACTERS = 48
"""Of an example: a longer one leaves the other columns no room."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A value at a dotted key of a shipped sweep; kind: of the family that the key belongs to, else empty."""

    place: str
    kind: str
    value: Any
    sweep: str


@cache
def examples(experiment: str) -> dict[tuple[str, str], list[Example]]:
    """(dotted key, kind) -> the values of the shipped sweeps of that experiment, in the order of their names."""
    found: dict[tuple[str, str], list[Example]] = {}
    for path in sorted((TREE / "sweeps").glob("*.yaml")):
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        if raw.get("experiment", "inversion") != experiment:
            continue
        for place, value, kind in _of_file(raw):
            found.setdefault((place, kind), []).append(Example(place=place, kind=kind, value=value, sweep=path.stem))
    return found


def example_of(place: str, kinds: Sequence[str], default: str, experiment: str) -> Example | None:
    """A short value at a key, of one of the kinds, and rather one that is not the default."""
    found = [one for kind in kinds for one in examples(experiment).get((place, kind), ())]
    short = [one for one in found if len(written(one.value)) <= MOST_CHARACTERS]
    other = [one for one in short if written(one.value) != default]
    return next(iter([*other, *short]), None)


def _of_file(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    yield from _flat(raw, "", "")
    cells = [*raw.get("cells", ()), raw.get("baseline") or {}]
    varied = [(key, value) for key, values in (raw.get("grid") or {}).items() for value in values]
    for key, value in [*varied, *(pair for cell in cells for pair in cell.items())]:
        yield from _varied(key, value, raw)


def _varied(key: str, value: Any, raw: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """A value of a grid or a cell; one inside a family whose kind is varied too belongs to no kind for certain."""
    family = next((one for one in USUAL_KIND if key.startswith(f"{one}.")), None)
    varied = [*(raw.get("grid") or {}), *(name for cell in raw.get("cells", ()) for name in cell)]
    if family is None:
        yield from _with_inside(key, value, "")
    elif family not in varied:
        node: Any = raw
        for part in family.split("."):
            node = (node or {}).get(part)
        yield from _with_inside(key, value, (node or {}).get("kind", USUAL_KIND[family]))


def _with_inside(place: str, value: Any, kind: str) -> Iterator[tuple[str, Any, str]]:
    own = kind
    if isinstance(value, dict) and ("kind" in value or place in USUAL_KIND):
        own = value.get("kind", USUAL_KIND.get(place, ""))
    yield place, value, kind
    inside = list(value.values()) if place in NAMED and isinstance(value, dict) else value
    for one in inside if isinstance(inside, list) else [inside]:
        if isinstance(one, dict):
            yield from _flat(one, f"{place}.", own)


def _flat(node: Mapping[str, Any], at: str, kind: str) -> Iterator[tuple[str, Any, str]]:
    for key, value in node.items():
        if key in ("grid", "cells", "baseline") and not at:
            yield key, value, ""
        elif key != "kind":
            yield from _with_inside(f"{at}{key}", value, kind)
