"""`smoothsweep diff A B`: what differs between two trials, recipes or runs, stage by stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from smoothsweep.core import screen
from smoothsweep.core.text import printable, quoted
from smoothsweep.orchestrator.commands.records.ancestry import ProvenanceReader
from smoothsweep.orchestrator.commands.records.differences import Change, Differences, Number, differences
from smoothsweep.orchestrator.commands.records.named_trials import NamedTrials, find_trials
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.tasks.stage_names import stage_title

_TITLES = {
    "setting": "settings",
    "input": "inputs",
    "version": "versions of stages (what their numbers mean)",
    "made by": "made by",
    "missing": "not compared",
}
_MOST = 20
_VALUE = 60  # characters


def print_differences(a: str, b: str, location: str, other_location: str | None, *, as_json: bool) -> int:
    """Print them. Returns the exit code, 0 however much differs; raises InputError for what names nothing.

    other_location: of B's store; None for that of A.
    """
    store = open_existing_store(location)
    other = store if other_location is None else open_existing_store(other_location)
    first, two = find_trials(store, a), find_trials(other, b)
    makers = (ProvenanceReader(store), ProvenanceReader(other))
    changes = differences(first, two, makers)
    if as_json:
        screen.out_text(json.dumps({"a": first.title, "b": two.title, **asdict(changes)}, indent=1, default=str))
    else:
        screen.out_text("\n".join(map(printable, differences_text(first, two, changes))))
    return 0


def differences_text(a: NamedTrials, b: NamedTrials, changes: Differences) -> list[str]:
    """Lines for a terminal."""
    lines = [f"A  {a.title}", f"B  {b.title}"]
    several = not (a.is_single_trial and b.is_single_trial)
    if several:
        lines.append(f"{changes.pairs} pairs of trials that agree on the seed and on what both vary")
    for name, only in (("A", changes.only_a), ("B", changes.only_b)):
        if only:
            lines.append(f"{len(only)} trials of {name} have no counterpart: {_few(only)}")
    for what, title in _TITLES.items():
        rows = [_change(change, count, changes.pairs) for change, count in changes.changes if change.what == what]
        lines += ["", f"{title}:", *(f"  {row}" for row in rows)] if rows else []
    alike = [kind for kind, count in changes.same.items() if count == changes.pairs]
    differing = [number for number in changes.numbers if number.a != number.b or number.apart]
    if differing:
        lines += ["", "numbers:", *(f"  {_number(number)}" for number in differing)]
    if equal := len(changes.numbers) - len(differing):
        lines += ["", f"{equal} numbers are equal"]
    if alike:
        lines += ["", f"one and the same artifact: {', '.join(map(_stage, alike))}"]
    if not changes.changes and not differing and changes.pairs and not changes.only_a and not changes.only_b:
        lines += ["", "nothing differs"]
    return lines


def _change(change: Change, count: int, pairs: int) -> str:
    often = f"  ({count} of {pairs} pairs)" if count != pairs else ""
    place = " ".join(part for part in (_stage(change.stage), change.key) if part)
    return f"{place}: {_value(change.a)} -> {_value(change.b)}{often}"


def _stage(name: str) -> str:
    """The stage as people read it; `name` may have a role behind it, in brackets."""
    kind, gap, role = name.partition(" ")
    return f"{stage_title(kind)}{gap}{role}"


def _value(value: object) -> str:
    return printable(value, most=_VALUE) if isinstance(value, str) else quoted(value, most=_VALUE)


def _number(number: Number) -> str:
    text = f"{_stage(number.stage)} {number.key}: {number.a:.6g} -> {number.b:.6g} ({number.b - number.a:+.3g})"
    if number.pairs == 1:
        return text
    return f"{text}; means of {number.pairs} pairs, the largest difference {abs(number.apart):.3g}"


def _few(labels: Sequence[str] | Iterable[str]) -> str:
    labels = list(labels)
    more = f" and {len(labels) - _MOST} more" if len(labels) > _MOST else ""
    return "; ".join(labels[:_MOST]) + more
