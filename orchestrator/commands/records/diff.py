"""`smoothsweep diff A B`: what differs between two trials, recipes or runs, stage by stage, told by manifests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from smoothsweep.orchestrator.planning.state import TrialNote
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.tasks.stage_names import stage_title

ABSENT = "(none)"
CONTENT = "content"  # the key of a configuration that says what a file or folder held
_MADE_BY = ("code_version", "device", "libraries")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that differs.

    Attributes:
        stage: The stage whose own it is, by its kind and maybe by what it is to another stage.
        what: "setting", "input" (of files what they held, of stages which there are), "version" (what the stage's
            numbers mean), "made by" (code, device, libraries) or "missing" (one side has not finished it).
        key: Dotted, "" where the stage itself is meant.
    """

    stage: str
    what: str
    key: str
    a: Any
    b: Any


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number of the results.

    Attributes:
        a, b: Means over the trials compared that have it on both sides.
        apart: The largest difference of a pair.
        pairs: How many pairs of trials have it.
    """

    stage: str
    key: str
    a: float
    b: float
    apart: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Differences:
    """How the trials of a sweep A differ from those of a sweep B.

    Attributes:
        pairs: How many trials of A have a counterpart in B.
        only_a, only_b: Labels of those that have none.
        changes: Changes, each with the number of pairs that it is seen in.
        same: Kind -> pairs whose stage is one artifact.
    """

    pairs: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changes: tuple[tuple[Change, int], ...]
    same: dict[str, int]
    numbers: tuple[Number, ...]


def differences(a: NamedTrials, b: NamedTrials, makers: tuple[ProvenanceReader, ProvenanceReader]) -> Differences:
    """Trial by trial: those that agree on seed, phase and every axis that both vary. One trial is compared with one
    whatever they are."""
    pairs, only_a, only_b = _paired(a, b)
    seen: Counter[str] = Counter()
    changes: dict[str, Change] = {}
    same: Counter[str] = Counter()
    numbers: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for mine, other in pairs:
        walk = _Walk()
        ends = [
            {kind: maker(kind, fingerprint) for kind, fingerprint in trial.stages.items()}
            for trial, maker in zip((mine, other), makers, strict=True)
        ]
        walk.ends(*ends)
        for change in walk.changes:
            changes.setdefault(repr(change), change)
        seen.update({repr(change) for change in walk.changes})
        same.update(list(walk.same))
        for kind, key, values in _numbers(*ends):
            numbers.setdefault((kind, key), []).append(values)
    return Differences(
        pairs=len(pairs),
        only_a=only_a,
        only_b=only_b,
        changes=tuple((change, seen[text]) for text, change in changes.items()),
        same=dict(same),
        numbers=tuple(_number(kind, key, values) for (kind, key), values in numbers.items()),
    )


def _paired(
    a: NamedTrials, b: NamedTrials
) -> tuple[list[tuple[TrialNote, TrialNote]], tuple[str, ...], tuple[str, ...]]:
    if a.is_single_trial and b.is_single_trial:
        return [(a.trials[0], b.trials[0])], (), ()
    shared = _varied(a) & _varied(b)

    def key(trial: TrialNote) -> str:
        return repr((trial.seed, trial.phase, sorted((axis, str(trial.axes.get(axis))) for axis in shared)))

    others: dict[str, list[TrialNote]] = {}
    for trial in b.trials:
        others.setdefault(key(trial), []).append(trial)
    pairs, only_a = [], []
    for trial in a.trials:
        if there := others.get(key(trial)):
            nearest = max(there, key=lambda other: _agreeing(trial, other))  # the first of those that are equally near
            there.remove(nearest)
            pairs.append((trial, nearest))
        else:
            only_a.append(trial.label)
    return pairs, tuple(only_a), tuple(trial.label for left in others.values() for trial in left)


def _agreeing(a: TrialNote, b: TrialNote) -> int:
    return sum(b.axes.get(axis) == value for axis, value in a.axes.items())


def _varied(chosen: NamedTrials) -> set[str]:
    """Axes in which the trials themselves differ: what one recipe is compared with another by is no axis of either."""
    axes = {axis for trial in chosen.trials for axis in trial.axes}
    return {axis for axis in axes if len({str(trial.axes.get(axis)) for trial in chosen.trials}) > 1}


class _Walk:
    """Two trials side by side, each pair of stages once."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.same: dict[str, None] = {}  # kinds in the order in which they were met
        self._seen: set[tuple[str, str]] = set()

    def ends(self, a: Mapping[str, Provenance], b: Mapping[str, Provenance]) -> None:
        for kind in dict.fromkeys((*a, *b)):
            if kind in a and kind in b:
                self._stages(a[kind], b[kind])
            else:
                sides = (ABSENT if kind not in side else "there" for side in (a, b))
                self._note("", "input", f"stage {stage_title(kind)}", *sides)

    def _stages(self, a: Provenance, b: Provenance, role: str | None = None) -> None:
        if (a.fingerprint, b.fingerprint) in self._seen:
            return
        self._seen.add((a.fingerprint, b.fingerprint))
        name = a.kind if role in (None, a.kind) else f"{a.kind} ({role})"  # a judge's classifier is a target, too
        if a.fingerprint == b.fingerprint:
            self.same[name] = None
            self._mapping(name, "made by", *({key: artifact.value_of(key) for key in _MADE_BY} for artifact in (a, b)))
            return
        self._note(name, "input", "", a.kind, b.kind)
        if a.manifest is None or b.manifest is None:
            sides = [artifact.why or "there" for artifact in (a, b)]
            self.changes.append(Change(stage=name, what="missing", key="", a=sides[0], b=sides[1]))
            return
        self._mapping(name, "setting", a.manifest["config"], b.manifest["config"])
        self._note(name, "version", "", a.value_of("version"), b.value_of("version"))
        self._mapping(name, "made by", *({key: artifact.value_of(key) for key in _MADE_BY} for artifact in (a, b)))
        for role in dict.fromkeys((*a.inputs, *b.inputs)):
            if role in a.inputs and role in b.inputs:
                self._stages(a.inputs[role], b.inputs[role], role)
            else:
                labels = (side.inputs[role].label if role in side.inputs else ABSENT for side in (a, b))
                self._note(name, "input", role, *labels)

    def _mapping(self, stage: str, what: str, a: dict[str, Any], b: dict[str, Any]) -> None:
        mine, other = dict(leaves(a)), dict(leaves(b))
        for key in dict.fromkeys((*mine, *other)):
            kind = "input" if what == "setting" and key.split(".")[-1] == CONTENT else what
            self._note(stage, kind, key, mine.get(key, ABSENT), other.get(key, ABSENT))

    def _note(self, stage: str, what: str, key: str, a: Any, b: Any) -> None:
        if a != b:
            self.changes.append(Change(stage=stage, what=what, key=key, a=a, b=b))


def _numbers(
    a: Mapping[str, Provenance], b: Mapping[str, Provenance]
) -> Iterator[tuple[str, str, tuple[float, float]]]:
    for kind in (kind for kind in a if kind in b):  # in the order of the stages, so that every call says the same
        ours, theirs = (side[kind].value_of("metrics") or {} for side in (a, b))
        for key in ours:
            if _is_number(ours[key]) and _is_number(theirs.get(key)):
                yield kind, key, (float(ours[key]), float(theirs[key]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(kind: str, key: str, values: list[tuple[float, float]]) -> Number:
    ours, theirs = zip(*values, strict=True)
    apart = max((other - value for value, other in values), key=abs)
    return Number(stage=kind, key=key, a=fmean(ours), b=fmean(theirs), apart=apart, pairs=len(values))


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
        lines += ["", "numbers:", *(f"  {_number_line(number)}" for number in differing)]
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


def _number_line(number: Number) -> str:
    text = f"{_stage(number.stage)} {number.key}: {number.a:.6g} -> {number.b:.6g} ({number.b - number.a:+.3g})"
    if number.pairs == 1:
        return text
    return f"{text}; means of {number.pairs} pairs, the largest difference {abs(number.apart):.3g}"


def _few(labels: Sequence[str] | Iterable[str]) -> str:
    labels = list(labels)
    more = f" and {len(labels) - _MOST} more" if len(labels) > _MOST else ""
    return "; ".join(labels[:_MOST]) + more
