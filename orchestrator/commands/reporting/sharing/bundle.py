"""`smoothsweep bundle`: a finished sweep as one file that a colleague opens, checks and continues from."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.damage import read_with_repair
from smoothsweep.orchestrator.commands.reporting.comparison import (
    COMPARISON,
    ROWS_BY_CLASS,
    comparison_of,
)
from smoothsweep.orchestrator.commands.reporting.sharing import contents
from smoothsweep.orchestrator.commands.reporting.sharing.archive import NOTES, Content, write_archive
from smoothsweep.orchestrator.commands.reporting.sharing.contents import SweepContents
from smoothsweep.orchestrator.commands.reporting.sharing.export import sweep_to_share
from smoothsweep.orchestrator.commands.reporting.sweep_report import contact_sheets, write_gathered
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.results import measured, with_recipes, write_rows
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.version import VERSION_FILE, version_note
from smoothsweep.sweeps.loaded import LoadedSweep

SETTINGS, TEXT, STORE = "sweep.yaml", "report.txt", "store"


@dataclass(frozen=True, kw_only=True)
class BundleRequest:
    """What was asked for."""

    sweep_file: Path
    overrides: list[str]
    store: str
    out: Path
    images: bool
    artifacts: bool


def bundle(request: BundleRequest) -> int:
    """Write the bundle. Returns the exit code; raises InputError before anything is written."""
    _refuse_place(request.out)
    loaded, trials, store = sweep_to_share(request.sweep_file, request.overrides, request.store)
    sweep, _ = read_with_repair(lambda: contents.gather_sweep(loaded, trials, store))
    about = contents.overview_facts(sweep, bundle=1, images=request.images, artifacts=request.artifacts)

    def written() -> str:
        with tempfile.TemporaryDirectory(prefix="smoothsweep-bundle-") as folder:
            files = _files(sweep, request, Path(folder))
            return write_archive(request.out, sweep.name, files, about)

    found, _ = read_with_repair(written)
    screen.out(f"{request.out}: {request.out.stat().st_size / 2**20:.1f} MiB, digest {found}")
    screen.out(f"to open it: smoothsweep report {request.out.name}")
    if request.images or request.artifacts:
        held = "training images and trained models" if request.artifacts else "training images beside reconstructions"
        screen.out(f"it holds {held}: mind who gets it")
    return 0


def _refuse_place(out: Path) -> None:
    if out.suffix != ".zip":
        raise InputError(f"{out}: expected the name of a file that ends in .zip")
    if os.path.lexists(out):
        raise InputError(f"{out}: expected a new file, got one that is there already")
    if not out.parent.is_dir():
        raise InputError(f"{out}: expected a file in a folder that is there, got no such folder")


def _files(sweep: SweepContents, request: BundleRequest, folder: Path) -> Iterator[tuple[str, Content]]:
    """The files by their names; the report is written into `folder` first."""
    data = without_local_paths(sweep.data)
    if request.images:
        data = replace(data, sheets=contact_sheets(sweep.trials, sweep.store, data, sweep.summary))
    write_rows(measured(with_recipes(sweep.table, data.axes)), folder / "results.parquet")
    if data.per_class is not None:
        write_rows(data.per_class, folder / ROWS_BY_CLASS)
    text, _, _ = write_gathered(data, sweep.summary, folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path
    yield TEXT, f"{text}\n".encode()
    yield SETTINGS, settings_of(sweep.loaded).encode()
    yield COMPARISON, comparison_of(sweep.trials, sweep.data, sweep.summary).model_dump_json(indent=1).encode()
    yield contents.references(sweep)
    yield from contents.table_files(sweep, contents.TABLES)
    if request.images:
        yield from contents.image_files(sweep, "best", sheets=False)
    finished = [stage for stage in _stages(sweep) if sweep.store.has(stage)]
    for stage in finished:
        yield (
            _manifest_name(stage.name, stage.fingerprint),
            json.dumps(sweep.store.manifest(stage), indent=1, sort_keys=True).encode(),
        )
    if request.artifacts:
        yield from _artifacts(sweep, finished)


def without_local_paths(data: ReportData) -> ReportData:
    """The report without places on this machine; links lead to the manifests in the bundle."""
    links = {
        trial: tuple(replace(link, path=_manifest_name(*Path(link.path).parts[-3:-1])) for link in of_trial)
        for trial, of_trial in data.links.items()
    }
    facts = {name: value for name, value in data.facts.items() if name != "Store"} | {"Sweep file": SETTINGS}
    return replace(data, links=links, facts=facts)


def settings_of(loaded: LoadedSweep) -> str:
    """The sweep as a file of its own: its opening comment, and its settings with everything that was set over them."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in loaded.intro.splitlines())
    return comment + yaml.safe_dump(loaded.raw, sort_keys=False, allow_unicode=True)


def _manifest_name(stage: str, fingerprint: str) -> str:
    return f"manifests/{stage}/{fingerprint}.json"


def _stages(sweep: SweepContents) -> list[Stage]:
    return with_ancestors([stage for trial in sweep.trials for stage in trial.stages])


def _artifacts(sweep: SweepContents, finished: list[Stage]) -> Iterator[tuple[str, Content]]:
    """A store of these stages alone, with the notes that a run goes on from."""
    yield f"{STORE}/{VERSION_FILE}", version_note()
    yield from _notes(sweep.store, sweep.name)
    for stage in finished:
        place = sweep.store.path(stage)
        names = [MANIFEST, *sweep.store.manifest(stage)["files"]]
        for name in dict.fromkeys(names):
            yield f"{STORE}/{stage.name}/{stage.fingerprint}/{name}", place / name


def _notes(store: Store, sweep: str) -> Iterator[tuple[str, Content]]:
    for name in NOTES:
        note = store.read_note(sweep, name)
        if note is not None:
            yield f"{STORE}/sweeps/{sweep}/{name}", note
