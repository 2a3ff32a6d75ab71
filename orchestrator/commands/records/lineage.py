"""`smoothsweep lineage TRIAL|FILE`: from a number, or a file of the store, to every manifest that it stands on.

Here is also what of a store a name means, and the walk over manifests from a trial down to the images.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import NotPlainError
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import MINUS, NBSP, counted, duration, printable, quoted, shortened, suggestion
from smoothsweep.orchestrator.commands.reporting.sharing.provenance import SUFFIX, read_provenance
from smoothsweep.orchestrator.commands.requests import LineageRequest
from smoothsweep.orchestrator.page.render import read_origin
from smoothsweep.orchestrator.planning.state import DOT, TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND, Damage
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.orchestrator.store.verified import checksum
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.stage_names import stage_label

_DIGITS = 6
PAGE = ".html"


def print_lineage(request: LineageRequest) -> int:
    """Print it. The exit code is 1 where a manifest is gone or damaged, or a file is not what its manifest says.

    Raises InputError for what names nothing.
    """
    store = open_existing_store(request.store)
    told = _of_file if _is_place(request.name) else _of_trial
    title, ends, wrong = told(store, request.name, request.number)
    stages = in_order(ends)
    if request.json:
        screen.out_text(json.dumps({"of": title, "stages": [_row(store, artifact) for artifact in stages]}, indent=1))
    else:
        screen.out_text("\n".join(map(printable, [title, *wrong, *lineage_text(store, stages)])))
    return 1 if wrong or any(artifact.manifest is None for artifact in stages) else 0


def lineage_text(store: Store, stages: Sequence[Provenance]) -> list[str]:
    """A block of lines for every stage, inputs first, and what all of it took."""
    lines: list[str] = []
    for artifact in stages:
        lines += ["", *_block(store, artifact)]
    seconds = [artifact.manifest["seconds"] for artifact in stages if artifact.manifest is not None]
    codes = sorted({artifact.manifest["code_version"] for artifact in stages if artifact.manifest is not None})
    time_text = f"{len(seconds)} of {len(stages)} stages, {duration(sum(seconds))} in all"
    return [*lines, "", f"{time_text}; code {', '.join(codes)}" if codes else time_text]


def _block(store: Store, artifact: Provenance) -> list[str]:
    if artifact.manifest is None:
        return [f"{artifact.label}: {artifact.why}"]
    manifest = artifact.manifest
    facts = [
        _version(artifact),
        duration(manifest["seconds"]),
        f"{manifest.get('device')} on {manifest.get('host')}",
        f"code {manifest['code_version']}",
        _when(manifest["finished_at"]),
    ]
    lines = [f"{artifact.label}: {', '.join(facts)}"]
    if artifact.inputs:
        lines.append(f"  from {', '.join(_input(role, source) for role, source in artifact.inputs.items())}")
    if numbers := {key: value for key, value in manifest["metrics"].items() if value is not None}:
        lines.append(f"  {', '.join(f'{key} {_value(value)}' for key, value in numbers.items())}")
    return [*lines, f"  {store.manifest_file(artifact.kind, artifact.fingerprint)}"]


def _version(artifact: Provenance) -> str:
    """Version of the stage's meaning; and the present one where that is another."""
    version, now = artifact.value_of("version"), TASKS.get(artifact.kind)
    if now is None:
        return f"version {version}, a kind of stage that is no more"
    return f"version {version}" if version == now.version else f"version {version} (now {now.version})"


def _input(role: str, source: Provenance) -> str:
    return source.label if role == source.kind else f"{role}: {source.label}"


def _value(value: Any) -> str:
    return f"{value:.{_DIGITS}g}" if isinstance(value, int | float) else quoted(value)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def _row(store: Store, artifact: Provenance) -> dict[str, Any]:
    row = {
        "stage": artifact.kind,
        "fingerprint": artifact.fingerprint,
        "missing": artifact.why,
        "manifest": str(store.manifest_file(artifact.kind, artifact.fingerprint)),
        "inputs": {role: source.fingerprint for role, source in artifact.inputs.items()},
    }
    keys = ("version", "seconds", "device", "host", "code_version", "finished_at", "libraries", "config", "metrics")
    return row | {key: artifact.value_of(key) for key in keys}


# What was named.


def _of_trial(store: Store, name: str, number: str | None) -> tuple[str, list[Provenance], list[str]]:
    named = find_trials(store, name)
    if not named.is_single_trial:
        trials = ", ".join(trial.trial for trial in named.trials[:5])
        expected = "expected one trial, by its id or the name that `status` has"
        raise InputError(f"{expected}, got {shortened(name)} with {len(named.trials)}: {trials}, ...")
    read, trial = ProvenanceReader(store), named.trials[0]
    artifacts = {kind: read(kind, fingerprint) for kind, fingerprint in trial.stages.items()}
    if number is None:
        return named.title, list(artifacts.values()), []
    kind = _measuring(number, artifacts)
    value = (artifacts[kind].value_of("metrics") or {}).get(number)
    return f"{number} {'not there' if value is None else _value(value)} of {named.title}", [artifacts[kind]], []


def _measuring(number: str, artifacts: dict[str, Provenance]) -> str:
    """The stage whose manifest has the number, or that the table says it comes from."""
    for kind, artifact in artifacts.items():
        if number in (artifact.value_of("metrics") or {}):
            return kind
    if number not in BY_KEY:
        known = {key for artifact in artifacts.values() for key in artifact.value_of("metrics") or {}} | set(BY_KEY)
        near = suggestion(number, known)
        raise InputError(f"--number: expected a column of results.parquet, got {quoted(number)}{near}")
    kind = BY_KEY[number].stage
    if kind not in artifacts:
        raise InputError(f"--number {number}: expected one that the trial measures, got one that no stage of it does")
    return kind


def _is_place(name: str) -> bool:
    return "/" in name or Path(name).exists() or Path(name).suffix in (PAGE, SUFFIX)


def _of_file(store: Store, name: str, number: str | None) -> tuple[str, list[Provenance], list[str]]:
    if number is not None:
        raise InputError(f"--number {number}: expected none beside a file, whose artifact is told of as a whole")
    path = Path(name).expanduser().resolve()
    if path.suffix == PAGE and path.is_file():
        return _of_page(store, path)
    if path.suffix == SUFFIX and path.is_file() and not path.is_relative_to(store.root):
        return _of_picture(store, path)
    parts = path.relative_to(store.root).parts if path.is_relative_to(store.root) else ()
    if len(parts) < 2 or not KIND.fullmatch(parts[0]) or not FINGERPRINT.fullmatch(parts[1]) or not path.exists():
        files = f"a file of an artifact in --store {store.location} (STAGE/FINGERPRINT/FILE)"
        expected = f"expected a trial, {files}, a report's page or an exported reconstruction"
        got = "something else" if path.exists() else "nothing there"
        raise InputError(f"{shortened(name)}: {expected}, got {got}")
    artifact = ProvenanceReader(store)(parts[0], parts[1])
    return (
        f"{shortened('/'.join(parts[2:]) or parts[0])} of {artifact.label}",
        [artifact],
        _wrong(path, parts[2:], artifact),
    )


def _of_page(store: Store, path: Path) -> tuple[str, list[Provenance], list[str]]:
    """What a report's page shows. The page only says which trials; what made them, the store alone says."""
    origin = read_origin(path)
    if origin.sweep not in store.sweeps():
        named = f"; the page names the store {shortened(origin.store)}" if origin.store != store.location else ""
        expected = f"expected the sweep {shortened(origin.sweep)} of this page in --store {store.location}"
        raise InputError(f"{shortened(path.name)}: {expected}, got none{named}")
    noted, read = {note.trial: note for note in read_trial_notes(store, origin.sweep)}, ProvenanceReader(store)
    known = [noted[trial] for trial in origin.trials if trial in noted]
    ends = [read(kind, fingerprint) for note in known for kind, fingerprint in note.stages.items()]
    wrong = []
    if gone := len(origin.trials) - len(known):
        wrong = [f"  {gone} of its trials are none of the store's: the page is older, of another store, or edited"]
    return f"{shortened(path.name)}: {counted(len(origin.trials), 'trial')} of {shortened(origin.sweep)}", ends, wrong


def _of_picture(store: Store, path: Path) -> tuple[str, list[Provenance], list[str]]:
    """An exported reconstruction. It only says which stage holds it; what made that, the store alone says."""
    provenance = read_provenance(path)
    artifact = ProvenanceReader(store)(RECONSTRUCTIONS, provenance.stages.reconstructions)
    recipe, sweep = shortened(provenance.recipe), shortened(provenance.sweep)
    where = f"rank {provenance.rank} of class {provenance.label}, {recipe}, seed {provenance.seed} of {sweep}"
    return f"{shortened(path.name)}: {where}", [artifact], []


def _wrong(path: Path, inside: Sequence[str], artifact: Provenance) -> list[str]:
    """Whether the file is one that the manifest knows, and as it was written."""
    if not inside or artifact.manifest is None or inside == (MANIFEST,):
        return []
    expected = artifact.manifest["files"].get("/".join(inside))
    if expected is None:
        return ["  its manifest knows no such file: another program put it there"]
    return [] if checksum(path) == expected else ["  it is not what was written: its checksum differs"]


_DEEPEST = 100  # stages behind one another: the longest chain of a sweep has about ten
GONE = "no manifest in the store: not finished, or deleted"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """One artifact.

    Attributes:
        manifest: None where it cannot be read, and `why`.
        inputs: Role -> what it was made of.
    """

    kind: str
    fingerprint: str
    manifest: dict[str, Any] | None
    why: str | None = None
    inputs: dict[str, Provenance] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return stage_label(self.kind, self.fingerprint)

    def value_of(self, key: str) -> Any:
        """What the manifest says under a key; None where there is none."""
        return None if self.manifest is None else self.manifest.get(key)


class ProvenanceReader:
    """Reads manifests of one store, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], Provenance] = {}
        self._reading: list[tuple[str, str]] = []

    def __call__(self, kind: str, fingerprint: str) -> Provenance:
        """The artifact and all that it was made of. Manifests that are gone or damaged are said to be so."""
        key = (kind, fingerprint)
        if key not in self._known:
            self._reading.append(key)
            self._known[key] = self._read(kind, fingerprint)
            self._reading.pop()
        return self._known[key]

    def _input(self, kind: str, fingerprint: str) -> Provenance:
        """An input's artifact; what is being read already, or lies behind more inputs than stages have, is not read."""
        if (kind, fingerprint) in self._reading or len(self._reading) > _DEEPEST:
            why = "its manifest names an input that was made of itself, or of a chain of stages without an end"
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=why)
        return self(kind, fingerprint)

    def _read(self, kind: str, fingerprint: str) -> Provenance:
        try:
            manifest = self._store.manifest_of(kind, fingerprint)
        except FileNotFoundError:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=GONE)
        except Damage as damage:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why=str(damage))
        except NotPlainError:
            return Provenance(kind=kind, fingerprint=fingerprint, manifest=None, why="its manifest is no plain file")
        except OSError as error:
            return Provenance(
                kind=kind, fingerprint=fingerprint, manifest=None, why=f"{error.strerror}: {error.filename}"
            )
        sources = manifest.get("inputs", {})
        inputs = {role: self._input(source["stage"], source["fingerprint"]) for role, source in sorted(sources.items())}
        return Provenance(kind=kind, fingerprint=fingerprint, manifest=manifest, inputs=inputs)


def in_order(ends: Iterable[Provenance]) -> list[Provenance]:
    """All of it, inputs before what was made of them, each once."""
    ordered: dict[tuple[str, str], Provenance] = {}

    def visit(artifact: Provenance) -> None:
        if (artifact.kind, artifact.fingerprint) not in ordered:
            for source in artifact.inputs.values():
                visit(source)
            ordered[artifact.kind, artifact.fingerprint] = artifact

    for end in ends:
        visit(end)
    return list(ordered.values())


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in nested mappings; lists are values."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


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
