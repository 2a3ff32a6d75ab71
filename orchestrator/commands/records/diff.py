"""`smoothsweep diff A B`: what differs between two trials, recipes or runs, stage by stage, told by manifests."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.text import printable, quoted
from smoothsweep.orchestrator.commands.records.lineage import (
    NamedTrials,
    Provenance,
    ProvenanceReader,
    find_trials,
    leaves,
)
from smoothsweep.orchestrator.commands.requests import DiffRequest
from smoothsweep.orchestrator.planning.state import TrialNote
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.tasks.stage_names import stage_title

ABSENT = "(none)"
CONTENT = "content"  # the key of a configuration that says what a file or folder held
MADE_BY = ("code_version", "device", "libraries")
TITLES = {
    "setting": "settings",
    "input": "inputs",
    "version": "versions of stages (what their numbers mean)",
    "made by": "made by",
    "missing": "not compared",
}
"""What differs -> the heading over it. An input of files is what they held, of stages which there are; what is missing
one side has not finished."""
MOST = 20
VALUE = 60  # characters

Ends = Mapping[str, Provenance]  # kind -> the artifact, of those whose metrics make a trial's row
Change = tuple[str, str, str, Any, Any]  # the stage whose own it is, what differs, its dotted key, in A, in B


def print_differences(request: DiffRequest) -> int:
    """Print them. Returns the exit code, 0 however much differs; raises InputError for what names nothing."""
    store = open_existing_store(request.store)
    other = store if request.other_store is None else open_existing_store(request.other_store)
    first, second = find_trials(store, request.a), find_trials(other, request.b)
    found = _differences(first, second, ProvenanceReader(store), ProvenanceReader(other))
    if request.json:
        screen.out_text(json.dumps({"a": first.title, "b": second.title, **found}, indent=1, default=str))
    else:
        screen.out_text("\n".join(map(printable, _text(first, second, found))))
    return 0


def _differences(a: NamedTrials, b: NamedTrials, of_a: ProvenanceReader, of_b: ProvenanceReader) -> dict[str, Any]:
    """Trial by trial, as JSON values: how many pairs there are, labels of trials that have no counterpart, each change
    with the number of pairs that it is seen in, kind -> pairs whose stage is one artifact, means of numbers.
    """
    pairs, only_a, only_b = _paired(a, b)
    changes: dict[str, tuple[Change, int]] = {}
    same: Counter[str] = Counter()
    numbers: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for mine, other in pairs:
        ends = [
            {kind: reader(kind, fingerprint) for kind, fingerprint in trial.stages.items()}
            for trial, reader in ((mine, of_a), (other, of_b))
        ]
        shared: dict[str, None] = {}  # in the order in which they were met
        for text, change in {repr(change): change for change in _changes(*ends, shared)}.items():
            changes[text] = (change, changes.get(text, (change, 0))[1] + 1)
        same.update(list(shared))
        for kind, key, values in _numbers(*ends):
            numbers[kind, key].append(values)
    return {
        "pairs": len(pairs),
        "only_a": only_a,
        "only_b": only_b,
        "changes": [
            (dict(zip(("stage", "what", "key", "a", "b"), change, strict=True)), count)
            for change, count in changes.values()
        ],
        "same": dict(same),
        "numbers": [
            {
                "stage": kind,
                "key": key,
                "a": fmean(one for one, _ in values),
                "b": fmean(two for _, two in values),
                "apart": max((two - one for one, two in values), key=abs),
                "pairs": len(values),
            }
            for (kind, key), values in numbers.items()
        ],
    }


def _paired(a: NamedTrials, b: NamedTrials) -> tuple[list[tuple[TrialNote, TrialNote]], list[str], list[str]]:
    """Those that agree on seed, phase and every axis that both vary. One trial is paired with one whatever they are."""
    if a.is_single_trial and b.is_single_trial:
        return [(a.trials[0], b.trials[0])], [], []
    shared = _varied(a) & _varied(b)

    def key(trial: TrialNote) -> str:
        return repr((trial.seed, trial.phase, sorted((axis, str(trial.axes.get(axis))) for axis in shared)))

    others: dict[str, list[TrialNote]] = defaultdict(list)
    for trial in b.trials:
        others[key(trial)].append(trial)
    pairs, only_a = [], []
    for trial in a.trials:
        if there := others[key(trial)]:  # the nearest, the first of those that are equally near
            nearest = max(there, key=lambda other: sum(other.axes.get(x) == value for x, value in trial.axes.items()))
            there.remove(nearest)
            pairs.append((trial, nearest))
        else:
            only_a.append(trial.label)
    return pairs, only_a, [trial.label for left in others.values() for trial in left]


def _varied(chosen: NamedTrials) -> set[str]:
    """Axes in which the trials themselves differ: what one recipe is compared with another by is no axis of either."""
    axes = {axis for trial in chosen.trials for axis in trial.axes}
    return {axis for axis in axes if len({str(trial.axes.get(axis)) for trial in chosen.trials}) > 1}


def _changes(a: Ends, b: Ends, same: dict[str, None]) -> Iterator[Change]:
    """Two trials side by side, each pair of stages once. Fills `same` with the stages that are one artifact."""
    seen: set[tuple[str, str]] = set()

    def stages(one: Provenance, two: Provenance, role: str | None = None) -> Iterator[Change]:
        if (one.fingerprint, two.fingerprint) in seen:
            return
        seen.add((one.fingerprint, two.fingerprint))
        name = one.kind if role in (None, one.kind) else f"{one.kind} ({role})"  # a judge's classifier is a target, too
        made_by = [{key: artifact.value_of(key) for key in MADE_BY} for artifact in (one, two)]
        if one.fingerprint == two.fingerprint:
            same[name] = None
            yield from _mappings(name, "made by", *made_by)
            return
        yield name, "input", "", one.kind, two.kind
        if one.manifest is None or two.manifest is None:
            yield name, "missing", "", one.why or "there", two.why or "there"
            return
        yield from _mappings(name, "setting", one.manifest["config"], two.manifest["config"])
        yield name, "version", "", one.value_of("version"), two.value_of("version")
        yield from _mappings(name, "made by", *made_by)
        for inner in dict.fromkeys((*one.inputs, *two.inputs)):
            if inner in one.inputs and inner in two.inputs:
                yield from stages(one.inputs[inner], two.inputs[inner], inner)
            else:
                labels = [side.inputs[inner].label if inner in side.inputs else ABSENT for side in (one, two)]
                yield name, "input", inner, labels[0], labels[1]

    def all_stages() -> Iterator[Change]:
        for kind in dict.fromkeys((*a, *b)):
            if kind in a and kind in b:
                yield from stages(a[kind], b[kind])
            else:
                sides = [ABSENT if kind not in side else "there" for side in (a, b)]
                yield "", "input", f"stage {stage_title(kind)}", sides[0], sides[1]

    yield from (change for change in all_stages() if change[3] != change[4] or change[1] == "missing")


def _mappings(stage: str, what: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Change]:
    mine, other = dict(leaves(a)), dict(leaves(b))
    for key in dict.fromkeys((*mine, *other)):
        kind = "input" if what == "setting" and key.split(".")[-1] == CONTENT else what
        yield stage, kind, key, mine.get(key, ABSENT), other.get(key, ABSENT)


def _numbers(a: Ends, b: Ends) -> Iterator[tuple[str, str, tuple[float, float]]]:
    for kind in (kind for kind in a if kind in b):  # in the order of the stages, so that every call says the same
        ours, theirs = (side[kind].value_of("metrics") or {} for side in (a, b))
        for key in ours:
            if all(type(side.get(key)) in (int, float) for side in (ours, theirs)):
                yield kind, key, (float(ours[key]), float(theirs[key]))


def _text(a: NamedTrials, b: NamedTrials, found: dict[str, Any]) -> list[str]:
    """Lines for a terminal."""
    lines, pairs = [f"A  {a.title}", f"B  {b.title}"], found["pairs"]
    if not (a.is_single_trial and b.is_single_trial):
        lines.append(f"{pairs} pairs of trials that agree on the seed and on what both vary")
    for name, only in (("A", found["only_a"]), ("B", found["only_b"])):
        if only:
            lines.append(f"{len(only)} trials of {name} have no counterpart: {_few(only)}")
    for what, title in TITLES.items():
        rows = [_change_line(change, count, pairs) for change, count in found["changes"] if change["what"] == what]
        lines += ["", f"{title}:", *(f"  {row}" for row in rows)] if rows else []
    differing = [number for number in found["numbers"] if number["a"] != number["b"] or number["apart"]]
    if differing:
        lines += ["", "numbers:", *(f"  {_number_line(number)}" for number in differing)]
    if equal := len(found["numbers"]) - len(differing):
        lines += ["", f"{equal} numbers are equal"]
    if alike := [kind for kind, count in found["same"].items() if count == pairs]:
        lines += ["", f"one and the same artifact: {', '.join(map(_stage, alike))}"]
    if pairs and not (found["changes"] or differing or found["only_a"] or found["only_b"]):
        lines += ["", "nothing differs"]
    return lines


def _change_line(change: dict[str, Any], count: int, pairs: int) -> str:
    often = f"  ({count} of {pairs} pairs)" if count != pairs else ""
    place = " ".join(part for part in (_stage(change["stage"]), change["key"]) if part)
    return f"{place}: {_value(change['a'])} -> {_value(change['b'])}{often}"


def _stage(name: str) -> str:
    """The stage as people read it; `name` may have a role behind it, in brackets."""
    kind, gap, role = name.partition(" ")
    return f"{stage_title(kind)}{gap}{role}"


def _value(value: object) -> str:
    return printable(value, most=VALUE) if isinstance(value, str) else quoted(value, most=VALUE)


def _number_line(number: dict[str, Any]) -> str:
    a, b = number["a"], number["b"]
    text = f"{_stage(number['stage'])} {number['key']}: {a:.6g} -> {b:.6g} ({b - a:+.3g})"
    if number["pairs"] == 1:
        return text
    return f"{text}; means of {number['pairs']} pairs, the largest difference {abs(number['apart']):.3g}"


def _few(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MOST} more" if len(labels) > MOST else ""
    return "; ".join(labels[:MOST]) + more
