"""`smoothsweep lineage` and `diff`: from a number, a trial or a file of the store to every manifest that it stands on,
and what differs between two trials, recipes or runs, stage by stage.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import NotPlainError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import counted, duration, few, printable, quoted, shortened, suggestion, typable
from smoothsweep.orchestrator.commands.requests import DiffRequest, LineageRequest
from smoothsweep.orchestrator.planning.state import DOT, TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND, Damage, checksum
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.tasks.registry import TASKS, stage_label, stage_title

Key = tuple[str, str]  # kind, fingerprint


class Artifact(NamedTuple):
    """One artifact. manifest: empty where it cannot be read, and `why`."""

    kind: str
    fingerprint: str
    manifest: dict[str, Any]
    why: str | None = None

    @property
    def label(self) -> str:
        return stage_label(self.kind, self.fingerprint)

    @property
    def inputs(self) -> dict[str, Key]:
        """Role -> what it was made of."""
        sources = self.manifest.get("inputs", {}).items()
        return {role: (source["stage"], source["fingerprint"]) for role, source in sources}


def read_artifact(store: Store, key: Key) -> Artifact:
    """What its manifest says; of one that is gone or damaged, why nothing is known."""
    try:
        return Artifact(*key, store.manifest_of(*key))
    except FileNotFoundError:
        why = "no manifest in the store: not finished, or deleted"
    except Damage as damage:
        why = str(damage)
    except NotPlainError:
        why = "its manifest is no plain file"
    except OSError as error:
        why = f"{error.strerror}: {error.filename}"
    return Artifact(*key, {}, why)


def read_lineage(store: Store, ends: Iterable[Key]) -> dict[Key, Artifact]:
    """These artifacts and all that they were made of, inputs before what was made of them."""
    read: dict[Key, Artifact] = {}
    through: dict[Key, Artifact] = {}
    waiting = list(ends)[::-1]
    while waiting:
        key = waiting[-1]
        if key in read:
            through.setdefault(waiting.pop(), read[key])
            continue
        read[key] = read_artifact(store, key)
        sources = [source for source in read[key].inputs.values() if source not in through]
        if any(source in read for source in sources):  # what is read and not through is made of this
            read[key] = Artifact(*key, {}, "its manifest names an input that was made of itself")
        else:
            waiting += sources[::-1]
    return through


class NamedTrials(NamedTuple):
    """The trials that a name means, at least one; title: as a line says it."""

    title: str
    trials: list[TrialNote]


def find_trials(store: Store, name: str) -> NamedTrials:
    """A sweep by its name, a trial by its id, or trials as SWEEP:LABEL, with the name that outputs give to a recipe or
    a trial; a comma may stand for the dot between its parts.

    Raises InputError, naming what there is, for everything else.
    """
    known = store.sweeps()
    sweep, colon, wanted = name.partition(":")
    if sweep in known:
        trials = _trials_of_sweep(store, sweep, wanted if colon else None)
    else:
        every = ((each, trial) for each in known for trial in read_trial_notes(store, each))
        sweep, trials = next(((each, [trial]) for each, trial in every if trial.trial == name), (sweep, []))
        if not trials:
            there = f"a sweep of {store.location} ({', '.join(known[:20]) or 'none'}), SWEEP:RECIPE or a trial's id"
            raise InputError(f"expected {there}, got {quoted(name)}{suggestion(sweep, known)}")
    if len(trials) == 1:
        return NamedTrials(f"trial {trials[0].trial} of {sweep}: {typable(trials[0].name)}", trials)
    return NamedTrials(f"{name}: {counted(len(trials), 'trial')}", trials)


def _trials_of_sweep(store: Store, sweep: str, wanted: str | None) -> list[TrialNote]:
    trials = read_trial_notes(store, sweep)
    if not trials:
        got = "got none: smoothsweep report with its sweep file writes it"
        raise InputError(f"sweep {shortened(sweep)}: expected {TRIALS_FILE} in {store.location}, {got}")
    if wanted is None:
        return trials

    def typed(text: str) -> str:
        return typable(text).replace(f" {DOT} ", ", ")

    names = [{trial.trial, *map(typed, (trial.recipe, trial.name, trial.label))} for trial in trials]
    chosen = [trial for trial, of_it in zip(trials, names, strict=True) if typed(wanted) in of_it]
    if not chosen:
        recipes = "; ".join(list(dict.fromkeys(typable(trial.recipe) for trial in trials if trial.recipe))[:20])
        near = suggestion(typed(wanted), set().union(*names))
        expected = f"expected the name of a recipe ({recipes}) or of a trial, as `status` has it"
        raise InputError(f"{shortened(sweep)}: {expected}, got {quoted(wanted)}{near}")
    return chosen


# `lineage`.


def print_lineage(request: LineageRequest) -> int:
    """Print it. The exit code is 1 where a manifest is gone or damaged, or a file is not what its manifest says.

    Raises InputError for what names nothing.
    """
    store = open_existing_store(request.store)
    is_place = "/" in request.name or Path(request.name).exists()
    title, ends, wrong = (_of_file if is_place else _of_trial)(store, request.name, request.number)
    stages = list(read_lineage(store, ends).values())
    if request.json:
        screen.out_text(json.dumps({"of": title, "stages": [_row(store, stage) for stage in stages]}, indent=1))
    else:
        lines = [title, *wrong, *(line for stage in stages for line in ("", *_block(store, stage))), "", _sum(stages)]
        screen.out_text("\n".join(map(printable, lines)))
    return 1 if wrong or any(stage.why for stage in stages) else 0


def _row(store: Store, artifact: Artifact) -> dict[str, Any]:
    keys = ("version", "seconds", "device", "host", "code_version", "finished_at", "libraries", "config", "metrics")
    return {
        "stage": artifact.kind,
        "fingerprint": artifact.fingerprint,
        "missing": artifact.why,
        "manifest": str(store.manifest_file(artifact.kind, artifact.fingerprint)),
        "inputs": {role: fingerprint for role, (_, fingerprint) in artifact.inputs.items()},
        **{key: artifact.manifest.get(key) for key in keys},
    }


def _block(store: Store, artifact: Artifact) -> list[str]:
    if artifact.why:
        return [f"{artifact.label}: {artifact.why}"]
    manifest, task = artifact.manifest, TASKS.get(artifact.kind)
    version = f"version {manifest.get('version')}"
    if task is None:
        version += ", a kind of stage that is no more"
    elif manifest.get("version") != task.version:
        version += f" (now {task.version})"
    facts = [
        version,
        duration(manifest["seconds"]),
        f"{manifest.get('device')} on {manifest.get('host')}",
        f"code {manifest['code_version']}",
        datetime.fromtimestamp(manifest["finished_at"], tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
    ]
    made_of = [f"{'' if role == key[0] else f'{role}: '}{stage_label(*key)}" for role, key in artifact.inputs.items()]
    numbers = [f"{key} {_number(value)}" for key, value in manifest["metrics"].items() if value is not None]
    return [
        f"{artifact.label}: {', '.join(facts)}",
        *([f"  from {', '.join(made_of)}"] if made_of else []),
        *([f"  {', '.join(numbers)}"] if numbers else []),
        f"  {store.manifest_file(artifact.kind, artifact.fingerprint)}",
    ]


def _sum(stages: Sequence[Artifact]) -> str:
    known = [stage.manifest for stage in stages if not stage.why]
    codes = sorted({manifest["code_version"] for manifest in known})
    taken = duration(sum(manifest["seconds"] for manifest in known))
    made_by = f"; code {', '.join(codes)}" if codes else ""
    return f"{len(known)} of {len(stages)} stages, {taken} in all{made_by}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else quoted(value)


Ends = tuple[str, list[Key], list[str]]  # a title, the artifacts that were named, what is wrong with the file


def _of_trial(store: Store, name: str, number: str | None) -> Ends:
    title, trials = find_trials(store, name)
    if len(trials) > 1:
        several = ", ".join(trial.trial for trial in trials[:5])
        expected = "expected one trial, by its id or the name that `status` has"
        raise InputError(f"{expected}, got {shortened(name)} with {len(trials)}: {several}, ...")
    keys = list(trials[0].stages.items())
    if number is None:
        return title, keys, []
    metrics = {key: read_artifact(store, key).manifest.get("metrics", {}) for key in keys}
    stage = BY_KEY[number].stage if number in BY_KEY else None
    measuring = next((key for key in keys if number in metrics[key]), next((k for k in keys if k[0] == stage), None))
    if measuring is None:
        near = suggestion(number, {*BY_KEY, *(key for measured in metrics.values() for key in measured)})
        raise InputError(f"--number {shortened(number)}: expected one that the trial measures, got another{near}")
    value = metrics[measuring].get(number)
    return f"{number} {'not there' if value is None else _number(value)} of {title}", [measuring], []


def _of_file(store: Store, name: str, number: str | None) -> Ends:
    if number is not None:
        raise InputError(f"--number {number}: expected none beside a file, whose artifact is told of as a whole")
    path = Path(name).expanduser().resolve()
    inside = path.relative_to(store.root).parts if path.is_relative_to(store.root) else ()
    if len(inside) < 2 or not KIND.fullmatch(inside[0]) or not FINGERPRINT.fullmatch(inside[1]) or not path.exists():
        expected = f"expected a trial, or a file of an artifact in --store {store.location} (STAGE/FINGERPRINT/FILE)"
        got = "something else" if path.exists() else "nothing there"
        raise InputError(f"{shortened(name)}: {expected}, got {got}")
    artifact, file = read_artifact(store, (inside[0], inside[1])), "/".join(inside[2:])
    wrong = []
    if file not in ("", MANIFEST) and not artifact.why:
        if file not in artifact.manifest["files"]:
            wrong = ["  its manifest knows no such file: another program put it there"]
        elif checksum(path) != artifact.manifest["files"][file]:
            wrong = ["  it is not what was written: its checksum differs"]
    return f"{shortened(file or artifact.kind)} of {artifact.label}", [(artifact.kind, artifact.fingerprint)], wrong


# `diff`.


ABSENT = "(none)"
CONTENT = "content"  # the key of a configuration that says what a file or folder held
MADE_BY = ("code_version", "device", "libraries")
PLACES = [
    ("setting", "config"),
    ("version", "version"),
    ("made by", "made by"),
]  # what differs, where a manifest has it
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


class Change(NamedTuple):
    """stage: whose own it is; what: a key of `TITLES`; key: dotted; a, b: the values."""

    stage: str
    what: str
    key: str
    a: Any
    b: Any


def print_differences(request: DiffRequest) -> int:
    """Print them. Returns the exit code, 0 however much differs; raises InputError for what names nothing."""
    store = open_existing_store(request.store)
    other = store if request.other_store is None else open_existing_store(request.other_store)
    a, b = find_trials(store, request.a), find_trials(other, request.b)
    found = {"a": a.title, "b": b.title, **_differences(a.trials, b.trials, store, other)}
    if request.json:
        screen.out_text(json.dumps(found, indent=1, default=str))
    else:
        screen.out_text("\n".join(map(printable, _diff_text(found))))
    return 0


def _differences(a: list[TrialNote], b: list[TrialNote], of_a: Store, of_b: Store) -> dict[str, Any]:
    """Trial by trial, as JSON values: how many pairs there are, labels of trials that have no counterpart, each change
    with the number of pairs that it is seen in, stage -> pairs in which it is one artifact, means of numbers.
    """
    pairs, only_a, only_b = _paired(a, b)
    changes: dict[str, tuple[Change, int]] = {}
    same: Counter[str] = Counter()
    numbers: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for one, two in pairs:
        read = read_lineage(of_a, one.stages.items()), read_lineage(of_b, two.stages.items())
        seen: dict[tuple[str, str], str] = {}
        met = _changes("", _as_artifact(one, "a"), _as_artifact(two, "b"), *read, seen)
        for text, change in {repr(change): change for change in met}.items():
            changes[text] = (change, changes.get(text, (change, 0))[1] + 1)
        same.update(dict.fromkeys(name for (mine, other), name in seen.items() if mine == other).keys())
        for kind in (kind for kind in one.stages if kind in two.stages):  # in their order: every call says the same
            mine, other = (
                made[kind, trial.stages[kind]].manifest.get("metrics", {})
                for made, trial in zip(read, (one, two), strict=True)
            )
            for key in mine:
                if all(type(side.get(key)) in (int, float) for side in (mine, other)):
                    numbers[kind, key].append((float(mine[key]), float(other[key])))
    return {
        "pairs": len(pairs),
        "only_a": only_a,
        "only_b": only_b,
        "changes": [(change._asdict(), count) for change, count in changes.values()],
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


def _paired(a: list[TrialNote], b: list[TrialNote]) -> tuple[list[tuple[TrialNote, TrialNote]], list[str], list[str]]:
    """Those that agree on seed, phase and every axis that both vary; labels of those without a counterpart. One trial
    is paired with one whatever they are: what one recipe is compared with another by is no axis of either."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])], [], []

    def varied(trials: list[TrialNote]) -> set[str]:
        axes = {axis for trial in trials for axis in trial.axes}
        return {axis for axis in axes if len({str(trial.axes.get(axis)) for trial in trials}) > 1}

    shared = sorted(varied(a) & varied(b))

    def place(trial: TrialNote) -> tuple[object, ...]:
        return trial.seed, trial.phase, *(str(trial.axes.get(axis)) for axis in shared)

    others: dict[tuple[object, ...], list[TrialNote]] = defaultdict(list)
    for trial in b:
        others[place(trial)].append(trial)
    pairs, only_a = [], []
    for trial in a:
        if there := others[place(trial)]:  # the nearest, the first of those that are equally near
            nearest = max(there, key=lambda other: sum(other.axes.get(x) == value for x, value in trial.axes.items()))
            there.remove(nearest)
            pairs.append((trial, nearest))
        else:
            only_a.append(trial.label)
    return pairs, only_a, [trial.label for left in others.values() for trial in left]


def _as_artifact(trial: TrialNote, name: str) -> Artifact:
    """As if the trial were made of its stages."""
    stages = {kind: {"stage": kind, "fingerprint": fingerprint} for kind, fingerprint in trial.stages.items()}
    return Artifact("", name, {"inputs": stages, "config": {}})


def _changes(
    name: str,
    a: Artifact,
    b: Artifact,
    of_a: dict[Key, Artifact],
    of_b: dict[Key, Artifact],
    seen: dict[tuple[str, str], str],
) -> Iterator[Change]:
    """How two artifacts differ, and what they were made of (`of_a`, `of_b`). seen: fingerprints -> name of each pair,
    which is filled, and is met but once."""
    if (a.fingerprint, b.fingerprint) in seen:
        return
    seen[a.fingerprint, b.fingerprint] = name
    is_same = a.fingerprint == b.fingerprint
    if a.kind != b.kind:
        yield Change(name, "input", "", a.kind, b.kind)
    if not is_same and (a.why or b.why):
        yield Change(name, "missing", "", a.why or "there", b.why or "there")
        return
    made_by = [{key: side.manifest.get(key) for key in MADE_BY} for side in (a, b)]
    sides = [{**side.manifest, "made by": facts} for side, facts in zip((a, b), made_by, strict=True)]
    for what, place in [("made by", "made by")] if is_same else PLACES:
        leaves, others = (dict(_leaves(side.get(place))) for side in sides)
        for key in dict.fromkeys((*leaves, *others)):
            values = leaves.get(key, ABSENT), others.get(key, ABSENT)
            kind = "input" if what == "setting" and key.split(".")[-1] == CONTENT else what
            if values[0] != values[1]:
                yield Change(name, kind, key, *values)
    for role in {} if is_same else dict.fromkeys((*a.inputs, *b.inputs)):
        mine, other = a.inputs.get(role), b.inputs.get(role)
        if mine is None or other is None:
            yield Change(name, "input", role, *(ABSENT if key is None else stage_label(*key) for key in (mine, other)))
        else:
            inner = mine[0] if role == mine[0] else f"{mine[0]} ({role})"  # a judge's classifier is a target, too
            yield from _changes(inner, of_a[mine], of_b[other], of_a, of_b, seen)


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in nested mappings; lists are values."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _diff_text(found: dict[str, Any]) -> list[str]:
    """Lines for a terminal."""
    pairs = found["pairs"]
    lines = [f"A  {found['a']}", f"B  {found['b']}"]
    if pairs != 1 or found["only_a"] or found["only_b"]:
        lines.append(f"{counted(pairs, 'pair')} of trials that agree on the seed and on what both vary")
    for name, only in (("A", found["only_a"]), ("B", found["only_b"])):
        if only:
            lines.append(f"{counted(len(only), 'trial')} of {name} without a counterpart: {few(only, MOST)}")
    for what, title in TITLES.items():
        rows = [_change_line(change, count, pairs) for change, count in found["changes"] if change["what"] == what]
        lines += ["", f"{title}:", *rows] if rows else []
    differing = [number for number in found["numbers"] if number["a"] != number["b"] or number["apart"]]
    lines += ["", "numbers:", *map(_number_line, differing)] if differing else []
    if equal := len(found["numbers"]) - len(differing):
        lines += ["", f"{equal} numbers are equal"]
    if alike := [kind for kind, count in found["same"].items() if count == pairs]:
        lines += ["", f"one and the same artifact: {', '.join(map(_stage, alike))}"]
    if pairs and not (found["changes"] or differing or found["only_a"] or found["only_b"]):
        lines += ["", "nothing differs"]
    return lines


def _change_line(change: dict[str, Any], count: int, pairs: int) -> str:
    a, b = (
        printable(value, most=VALUE) if isinstance(value, str) else quoted(value, most=VALUE)
        for value in (change["a"], change["b"])
    )
    often = f"  ({count} of {pairs} pairs)" if count != pairs else ""
    return f"  {' '.join(filter(None, (_stage(change['stage']), change['key'])))}: {a} -> {b}{often}"


def _number_line(number: dict[str, Any]) -> str:
    a, b, pairs = number["a"], number["b"], number["pairs"]
    often = f"; means of {pairs} pairs, the largest difference {abs(number['apart']):.3g}" if pairs > 1 else ""
    return f"  {_stage(number['stage'])} {number['key']}: {a:.6g} -> {b:.6g} ({b - a:+.3g}){often}"


def _stage(name: str) -> str:
    """The stage as people read it; `name` may have a role behind it, in brackets."""
    kind, gap, role = name.partition(" ")
    return f"{stage_title(kind)}{gap}{role}"
