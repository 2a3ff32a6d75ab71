"""`smoothsweep lineage` and `diff`: from a number, a trial or a file of the store to every manifest that it stands on,
and what differs between two trials, recipes or runs, stage by stage.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import NotPlainError
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import MINUS, NBSP, counted, duration, few, printable, quoted, shortened, suggestion
from smoothsweep.orchestrator.commands.requests import DiffRequest, LineageRequest
from smoothsweep.orchestrator.page.pictures import SUFFIX, read_provenance
from smoothsweep.orchestrator.page.render import read_origin
from smoothsweep.orchestrator.planning.state import DOT, TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND, Damage, checksum
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.tasks.registry import TASKS, stage_label, stage_title

PAGE = ".html"
GONE = "no manifest in the store: not finished, or deleted"
CIRCLE = "its manifest names an input that was made of itself"

Key = tuple[str, str]  # kind, fingerprint


class Artifact(NamedTuple):
    """One artifact. manifest: None where it cannot be read, and `why`."""

    kind: str
    fingerprint: str
    manifest: dict[str, Any] | None = None
    why: str | None = None

    @property
    def label(self) -> str:
        return stage_label(self.kind, self.fingerprint)

    @property
    def inputs(self) -> dict[str, Key]:
        """Role -> what it was made of."""
        sources = sorted((self.value_of("inputs") or {}).items())
        return {role: (source["stage"], source["fingerprint"]) for role, source in sources}

    def value_of(self, key: str) -> Any:
        """What the manifest says under a key; None where there is none."""
        return None if self.manifest is None else self.manifest.get(key)


def read_artifact(store: Store, kind: str, fingerprint: str) -> Artifact:
    """What its manifest says; of one that is gone or damaged, why nothing is known."""
    try:
        return Artifact(kind, fingerprint, store.manifest_of(kind, fingerprint))
    except FileNotFoundError:
        why = GONE
    except (Damage, NotPlainError) as found:
        why = str(found) if isinstance(found, Damage) else "its manifest is no plain file"
    except OSError as error:
        why = f"{error.strerror}: {error.filename}"
    return Artifact(kind, fingerprint, why=why)


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
        read[key] = read_artifact(store, *key)
        sources = [source for source in read[key].inputs.values() if source not in through]
        if any(source in read for source in sources):  # what is read and not through is made of this
            read[key] = Artifact(*key, why=CIRCLE)
        else:
            waiting += sources[::-1]
    return through


# What was named.


@dataclass(frozen=True, kw_only=True)
class NamedTrials:
    """What a name means: the trials of `sweep` that were asked for, at least one."""

    name: str
    sweep: str
    trials: tuple[TrialNote, ...]

    @property
    def is_single_trial(self) -> bool:
        return len(self.trials) == 1

    @property
    def title(self) -> str:
        """What is chosen, as a line says it."""
        if self.is_single_trial:
            return f"trial {self.trials[0].trial} of {self.sweep}: {plain_name(self.trials[0].name)}"
        return f"{self.name}: {counted(len(self.trials), 'trial')}"


def plain_name(text: str) -> str:
    """A name with plain minus signs and single spaces, none at its ends."""
    return " ".join(text.replace(MINUS, "-").replace(NBSP, " ").split())


def _typed(text: str) -> str:
    """As `plain_name`, with a comma for the dot that stands between the parts of a trial's name."""
    return plain_name(text).replace(f" {DOT} ", ", ")


def find_trials(store: Store, name: str) -> NamedTrials:
    """A sweep by its name, a trial by its id, or trials as SWEEP:LABEL, with the name that outputs give to a recipe or
    a trial.

    Raises InputError, naming what there is, for everything else.
    """
    known = store.sweeps()
    sweep, colon, wanted = name.partition(":")
    if sweep in known:
        trials = read_trial_notes(store, sweep)
        if not trials:
            remedy = "smoothsweep report with its sweep file writes it"
            raise InputError(
                f"sweep {shortened(sweep)}: expected {TRIALS_FILE} in {store.location}, got none: {remedy}"
            )
        labels = [{trial.trial, *map(_typed, (trial.recipe, trial.name, trial.label))} for trial in trials]
        named = zip(trials, labels, strict=True)
        chosen = tuple(trial for trial, of_it in named if not colon or _typed(wanted) in of_it)
        if not chosen:
            recipes = list(dict.fromkeys(plain_name(trial.recipe) for trial in trials if trial.recipe))
            near = suggestion(_typed(wanted), set().union(*labels))
            expected = f"expected the name of a recipe ({'; '.join(recipes[:20])}) or of a trial, as `status` has it"
            raise InputError(f"{shortened(sweep)}: {expected}, got {quoted(wanted)}{near}")
        return NamedTrials(name=name, sweep=sweep, trials=chosen)
    for sweep_name in known:
        for trial in read_trial_notes(store, sweep_name):
            if trial.trial == name:
                return NamedTrials(name=name, sweep=sweep_name, trials=(trial,))
    expected = f"expected a sweep of {store.location} ({', '.join(known[:20]) or 'none'}), SWEEP:RECIPE or a trial's id"
    raise InputError(f"{expected}, got {quoted(name)}{suggestion(sweep, known)}")


# `lineage`.


def print_lineage(request: LineageRequest) -> int:
    """Print it. The exit code is 1 where a manifest is gone or damaged, or a file is not what its manifest says.

    Raises InputError for what names nothing.
    """
    store = open_existing_store(request.store)
    is_place = "/" in request.name or Path(request.name).exists() or Path(request.name).suffix in (PAGE, SUFFIX)
    told = _of_file if is_place else _of_trial
    title, ends, wrong = told(store, request.name, request.number)
    stages = read_lineage(store, ends)
    if request.json:
        rows = [_row(store, artifact) for artifact in stages.values()]
        screen.out_text(json.dumps({"of": title, "stages": rows}, indent=1))
    else:
        screen.out_text("\n".join(map(printable, [title, *wrong, *_lineage_text(store, list(stages.values()))])))
    return 1 if wrong or any(artifact.manifest is None for artifact in stages.values()) else 0


def _lineage_text(store: Store, stages: Sequence[Artifact]) -> list[str]:
    """A block of lines for every stage, inputs first, and what all of it took."""
    lines: list[str] = []
    for artifact in stages:
        lines += ["", *_block(store, artifact)]
    known = [artifact.manifest for artifact in stages if artifact.manifest is not None]
    codes = sorted({manifest["code_version"] for manifest in known})
    seconds = sum(manifest["seconds"] for manifest in known)
    time_text = f"{len(known)} of {len(stages)} stages, {duration(seconds)} in all"
    return [*lines, "", f"{time_text}; code {', '.join(codes)}" if codes else time_text]


def _block(store: Store, artifact: Artifact) -> list[str]:
    manifest = artifact.manifest
    if manifest is None:
        return [f"{artifact.label}: {artifact.why}"]
    version, now = manifest.get("version"), TASKS.get(artifact.kind)
    other = ", a kind of stage that is no more" if now is None else f" (now {now.version})"
    finished = datetime.fromtimestamp(manifest["finished_at"], tz=UTC)
    facts = [
        f"version {version}{'' if now is not None and version == now.version else other}",
        duration(manifest["seconds"]),
        f"{manifest.get('device')} on {manifest.get('host')}",
        f"code {manifest['code_version']}",
        finished.strftime("%Y-%m-%d %H:%M UTC"),
    ]
    made_of = [f"{'' if role == key[0] else f'{role}: '}{stage_label(*key)}" for role, key in artifact.inputs.items()]
    numbers = [f"{key} {_number(value)}" for key, value in manifest["metrics"].items() if value is not None]
    return [
        f"{artifact.label}: {', '.join(facts)}",
        *([f"  from {', '.join(made_of)}"] if made_of else []),
        *([f"  {', '.join(numbers)}"] if numbers else []),
        f"  {store.manifest_file(artifact.kind, artifact.fingerprint)}",
    ]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else quoted(value)


def _row(store: Store, artifact: Artifact) -> dict[str, Any]:
    row = {
        "stage": artifact.kind,
        "fingerprint": artifact.fingerprint,
        "missing": artifact.why,
        "manifest": str(store.manifest_file(artifact.kind, artifact.fingerprint)),
        "inputs": {role: fingerprint for role, (_, fingerprint) in artifact.inputs.items()},
    }
    keys = ("version", "seconds", "device", "host", "code_version", "finished_at", "libraries", "config", "metrics")
    return row | {key: artifact.value_of(key) for key in keys}


Ends = tuple[str, list[Key], list[str]]  # a title, the artifacts that were named, what is wrong with the file


def _of_trial(store: Store, name: str, number: str | None) -> Ends:
    named = find_trials(store, name)
    if not named.is_single_trial:
        trials = ", ".join(trial.trial for trial in named.trials[:5])
        expected = "expected one trial, by its id or the name that `status` has"
        raise InputError(f"{expected}, got {shortened(name)} with {len(named.trials)}: {trials}, ...")
    keys = list(named.trials[0].stages.items())
    if number is None:
        return named.title, keys, []
    metrics = {key: read_artifact(store, *key).value_of("metrics") or {} for key in keys}
    measuring = [key for key in keys if number in metrics[key]]
    if not measuring and number not in BY_KEY:
        near = suggestion(number, set(BY_KEY).union(*metrics.values()))
        raise InputError(f"--number: expected a column of results.parquet, got {quoted(number)}{near}")
    measuring += [key for key in keys if number in BY_KEY and key[0] == BY_KEY[number].stage]
    if not measuring:
        raise InputError(f"--number {number}: expected one that the trial measures, got one that no stage of it does")
    value = metrics[measuring[0]].get(number)
    told = "not there" if value is None else _number(value)
    return f"{number} {told} of {named.title}", measuring[:1], []


def _of_file(store: Store, name: str, number: str | None) -> Ends:
    if number is not None:
        raise InputError(f"--number {number}: expected none beside a file, whose artifact is told of as a whole")
    path = Path(name).expanduser().resolve()
    if path.suffix == PAGE and path.is_file():
        return _of_page(store, path)
    if path.suffix == SUFFIX and path.is_file() and not path.is_relative_to(store.root):
        return _of_picture(path)
    parts = path.relative_to(store.root).parts if path.is_relative_to(store.root) else ()
    if len(parts) < 2 or not KIND.fullmatch(parts[0]) or not FINGERPRINT.fullmatch(parts[1]) or not path.exists():
        files = f"a file of an artifact in --store {store.location} (STAGE/FINGERPRINT/FILE)"
        expected = f"expected a trial, {files}, a report's page or an exported reconstruction"
        got = "something else" if path.exists() else "nothing there"
        raise InputError(f"{shortened(name)}: {expected}, got {got}")
    artifact, inside = read_artifact(store, parts[0], parts[1]), parts[2:]
    wrong = []
    if inside and artifact.manifest is not None and inside != (MANIFEST,):
        expected = artifact.manifest["files"].get("/".join(inside))
        if expected is None:
            wrong = ["  its manifest knows no such file: another program put it there"]
        elif checksum(path) != expected:
            wrong = ["  it is not what was written: its checksum differs"]
    return f"{shortened('/'.join(inside) or parts[0])} of {artifact.label}", [(parts[0], parts[1])], wrong


def _of_page(store: Store, path: Path) -> Ends:
    """What a report's page shows. The page only says which trials; what made them, the store alone says."""
    origin = read_origin(path)
    if origin.sweep not in store.sweeps():
        named = f"; the page names the store {shortened(origin.store)}" if origin.store != store.location else ""
        expected = f"expected the sweep {shortened(origin.sweep)} of this page in --store {store.location}"
        raise InputError(f"{shortened(path.name)}: {expected}, got none{named}")
    noted = {note.trial: note for note in read_trial_notes(store, origin.sweep)}
    known = [noted[trial] for trial in origin.trials if trial in noted]
    wrong = []
    if gone := len(origin.trials) - len(known):
        wrong = [f"  {gone} of its trials are none of the store's: the page is older, of another store, or edited"]
    title = f"{shortened(path.name)}: {counted(len(origin.trials), 'trial')} of {shortened(origin.sweep)}"
    return title, [key for note in known for key in note.stages.items()], wrong


def _of_picture(path: Path) -> Ends:
    """An exported reconstruction. It only says which stage holds it; what made that, the store alone says."""
    told = read_provenance(path)
    where = f"rank {told.rank} of class {told.label}, {shortened(told.recipe)}, seed {told.seed}"
    title = f"{shortened(path.name)}: {where} of {shortened(told.sweep)}"
    return title, [(RECONSTRUCTIONS, told.stages.reconstructions)], []


# `diff`.


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
    first, second = find_trials(store, request.a), find_trials(other, request.b)
    found = _differences(first, second, store, other)
    if request.json:
        screen.out_text(json.dumps({"a": first.title, "b": second.title, **found}, indent=1, default=str))
    else:
        screen.out_text("\n".join(map(printable, _diff_text(first, second, found))))
    return 0


def _differences(a: NamedTrials, b: NamedTrials, of_a: Store, of_b: Store) -> dict[str, Any]:
    """Trial by trial, as JSON values: how many pairs there are, labels of trials that have no counterpart, each change
    with the number of pairs that it is seen in, kind -> pairs whose stage is one artifact, means of numbers.
    """
    pairs, only_a, only_b = _paired(a, b)
    changes: dict[str, tuple[Change, int]] = {}
    same: Counter[str] = Counter()
    numbers: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for one, two in pairs:
        made_of = read_lineage(of_a, one.stages.items()), read_lineage(of_b, two.stages.items())
        shared: dict[str, None] = {}  # in the order in which they were met
        met = [
            change
            for change in _changes(one, two, *made_of, shared)
            if change.a != change.b or change.what == "missing"
        ]
        for text, change in {repr(change): change for change in met}.items():
            changes[text] = (change, changes.get(text, (change, 0))[1] + 1)
        same.update(list(shared))
        for kind in (kind for kind in one.stages if kind in two.stages):  # in their order: every call says the same
            ours, theirs = (
                read[kind, trial.stages[kind]].value_of("metrics") or {}
                for trial, read in zip((one, two), made_of, strict=True)
            )
            for key in ours:
                if all(type(side.get(key)) in (int, float) for side in (ours, theirs)):
                    numbers[kind, key].append((float(ours[key]), float(theirs[key])))
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


def _changes(
    a: TrialNote, b: TrialNote, of_a: dict[Key, Artifact], of_b: dict[Key, Artifact], same: dict[str, None]
) -> Iterator[Change]:
    """Two trials side by side, each pair of stages once, equal values too. Fills `same` with the stages that are one
    artifact. of_a, of_b: what they were made of.
    """
    seen: set[tuple[str, str]] = set()

    def stages(one: Artifact, two: Artifact, role: str | None = None) -> Iterator[Change]:
        if (one.fingerprint, two.fingerprint) in seen:
            return
        seen.add((one.fingerprint, two.fingerprint))
        name = one.kind if role in (None, one.kind) else f"{one.kind} ({role})"  # a judge's classifier is a target, too
        made_by = [{key: artifact.value_of(key) for key in MADE_BY} for artifact in (one, two)]
        if one.fingerprint == two.fingerprint:
            same[name] = None
            yield from _mappings(name, "made by", *made_by)
            return
        yield Change(name, "input", "", one.kind, two.kind)
        if one.manifest is None or two.manifest is None:
            yield Change(name, "missing", "", one.why or "there", two.why or "there")
            return
        yield from _mappings(name, "setting", one.manifest["config"], two.manifest["config"])
        yield Change(name, "version", "", one.value_of("version"), two.value_of("version"))
        yield from _mappings(name, "made by", *made_by)
        for inner in dict.fromkeys((*one.inputs, *two.inputs)):
            if inner in one.inputs and inner in two.inputs:
                yield from stages(of_a[one.inputs[inner]], of_b[two.inputs[inner]], inner)
            else:
                labels = [stage_label(*x.inputs[inner]) if inner in x.inputs else ABSENT for x in (one, two)]
                yield Change(name, "input", inner, *labels)

    for kind in dict.fromkeys((*a.stages, *b.stages)):
        if kind in a.stages and kind in b.stages:
            yield from stages(of_a[kind, a.stages[kind]], of_b[kind, b.stages[kind]])
        else:
            sides = [ABSENT if kind not in trial.stages else "there" for trial in (a, b)]
            yield Change("", "input", f"stage {stage_title(kind)}", *sides)


def _mappings(stage: str, what: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Change]:
    mine, other = dict(_leaves(a)), dict(_leaves(b))
    for key in dict.fromkeys((*mine, *other)):
        kind = "input" if what == "setting" and key.split(".")[-1] == CONTENT else what
        yield Change(stage, kind, key, mine.get(key, ABSENT), other.get(key, ABSENT))


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in nested mappings; lists are values."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _diff_text(a: NamedTrials, b: NamedTrials, found: dict[str, Any]) -> list[str]:
    """Lines for a terminal."""
    lines, pairs = [f"A  {a.title}", f"B  {b.title}"], found["pairs"]
    if not (a.is_single_trial and b.is_single_trial):
        lines.append(f"{pairs} pairs of trials that agree on the seed and on what both vary")
    for name, only in (("A", found["only_a"]), ("B", found["only_b"])):
        if only:
            lines.append(f"{len(only)} trials of {name} have no counterpart: {few(only, MOST)}")
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
