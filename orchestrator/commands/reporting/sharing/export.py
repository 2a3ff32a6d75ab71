"""`smoothsweep export`: the tables, figures, reconstructions and references that a paper on a sweep needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands.damage import read_with_repair
from smoothsweep.orchestrator.commands.reporting.sharing import contents
from smoothsweep.orchestrator.commands.reporting.sharing.folder import refuse_other_content, write_folder
from smoothsweep.orchestrator.commands.reporting.sharing.reconstructions import Choice
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.toy import ToySweep

INDEX = "export.json"


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What was asked for.

    Attributes:
        tables, figures: Formats, as typed.
        images: None for the best, or none where redacted.
    """

    sweep_file: Path
    overrides: list[str]
    store: str
    out: Path
    tables: str
    figures: str
    images: Choice | None
    redact: bool


def export(request: ExportRequest) -> int:
    """Write the export. Returns the exit code; raises InputError before anything is written."""
    tables = formats("--tables", request.tables, contents.TABLES)
    figures = formats("--figures", request.figures, contents.FIGURES)
    images = _images(request)
    refuse_other_content(request.out, INDEX)
    loaded, trials, store = sweep_to_share(request.sweep_file, request.overrides, request.store)
    sweep, _ = read_with_repair(lambda: contents.gather_sweep(loaded, trials, store, redact=request.redact))
    if request.images is None and not _has_pictures(loaded):
        images = "none"

    def files() -> Iterator[tuple[str, bytes]]:
        yield contents.references(sweep)
        yield from contents.table_files(sweep, tables)
        yield from contents.figure_files(sweep, figures)
        yield from contents.image_files(sweep, images)

    about = contents.overview_facts(sweep, images=images, redacted=request.redact)
    names, _ = read_with_repair(lambda: write_folder(request.out, files(), INDEX, about))
    _tell(request, names)
    return 0


def sweep_to_share(sweep_file: Path, overrides: list[str], location: str) -> tuple[LoadedSweep, list[Trial], Store]:
    """A sweep that has results, its trials and its store. Raises InputError where there is nothing to share."""
    loaded = load_sweep(sweep_file, overrides)
    if isinstance(loaded.sweep, ToySweep):
        raise InputError(f"{loaded.source}: expected a sweep that trains and attacks models, got {loaded.sweep.name}")
    store = open_existing_store(location)
    trials = trials_of(loaded, store)
    if not trials:
        raise InputError(f"{loaded.source}: expected a search that has proposed something in {location}, got none")
    return loaded, trials, store


def formats(flag: str, typed: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """`pdf,svg` as a tuple in the order of `known`; `none` alone is empty. Raises InputError for anything else."""
    names = typed.split(",")
    if names == ["none"]:
        return ()
    wrong = [suffix for suffix in names if suffix not in known]
    if wrong:
        raise InputError(f"{flag}: expected some of {','.join(known)}, or none, got {quoted(typed)}")
    if len(set(names)) < len(names):
        raise InputError(f"{flag}: expected each format once, got {quoted(typed)}")
    return tuple(suffix for suffix in known if suffix in names)


def _images(request: ExportRequest) -> Choice:
    if request.redact and request.images not in (None, "none"):
        raise InputError(f"--images {request.images}: expected none beside --redact, which shows nobody")
    return request.images or ("none" if request.redact else "best")


def _has_pictures(loaded: LoadedSweep) -> bool:
    sweep = loaded.sweep
    return not isinstance(sweep, ToySweep) and sweep.attack is not None


def _tell(request: ExportRequest, names: list[str]) -> None:
    for folder, what in (("tables/", "tables"), ("figures/", "figures"), ("images/", "images")):
        count = sum(name.startswith(folder) and not name.endswith(".json") for name in names)
        if count:
            screen.out(f"{request.out / folder}: {count} {what}")
    screen.out(f"{request.out / contents.BIBLIOGRAPHY}: what to cite")
    if any(name.startswith("images/") for name in names):
        screen.out("images show people as the models remember them, sheets beside training images: mind who sees them")
