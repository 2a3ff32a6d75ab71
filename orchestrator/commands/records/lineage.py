"""`smoothsweep lineage TRIAL|FILE`: from a number, or a file of the store, to every manifest that it stands on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.durations import duration
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import counted, printable, quoted, shortened
from smoothsweep.orchestrator.commands.records.trials import Provenance, ProvenanceReader, find_trials, in_order
from smoothsweep.orchestrator.commands.reporting.sharing.provenance import SUFFIX, read_provenance
from smoothsweep.orchestrator.page.render import read_origin
from smoothsweep.orchestrator.planning.state import read_trial_notes
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.orchestrator.store.verified import checksum
from smoothsweep.tasks.registry import TASKS

_DIGITS = 6
PAGE = ".html"


def print_lineage(name: str, location: str, number: str | None, *, as_json: bool) -> int:
    """Print it. The exit code is 1 where a manifest is gone or damaged, or a file is not what its manifest says.

    number: a column of the results; only what it stands on is told. Raises InputError for what names nothing.
    """
    store = open_existing_store(location)
    title, ends, wrong = _of_file(store, name, number) if _is_place(name) else _of_trial(store, name, number)
    stages = in_order(ends)
    if as_json:
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
        return ["  its manifest knows no such file: somebody else put it there"]
    return [] if checksum(path) == expected else ["  it is not what was written: its checksum differs"]
