"""`smoothsweep export`: the tables, figures, reconstructions and references that a paper on a sweep needs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.citations import PAPER, SOFTWARE, bibliography
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, move, temporary_name, write_file
from smoothsweep.core.readers.files import pieces_of, read_whole
from smoothsweep.core.text import quoted, typable
from smoothsweep.orchestrator.commands.reporting.report import contact_sheets, prior_licences, report_data
from smoothsweep.orchestrator.commands.requests import ExportRequest
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import (
    KEY,
    class_names,
    is_recognised,
    judge_name,
    png,
    reconstructed_labels,
    reconstruction,
    sheet_image,
)
from smoothsweep.orchestrator.page.tables import csv_table, latex_tables, markdown_table, tables_of
from smoothsweep.orchestrator.planning.state import read_failures
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages, trials_of
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import by_attack, results_table
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_with_repair
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep, ToySweep

SMOOTHING = "label_smoothing"


def bibliography_of(trials: Iterable[Trial]) -> str:
    """A BibTeX file. The software and the paper whose question it asks are always in it."""
    keys = {SOFTWARE, PAPER}
    for trial in trials:
        keys |= set(cited(as_inversion(trial.settings)))
    return bibliography(keys)


def cited(settings: InversionSweep) -> Iterable[str]:
    """The sources of one trial's settings."""
    yield from settings.data.cites
    yield from _of_training(settings)
    if settings.attack is not None:
        yield from settings.attack.built.citations
        if settings.reads_prior and settings.prior is not None:
            yield from settings.prior.row.cites
        if settings.reads_public and settings.public is not None:
            yield from settings.public.cites
    for judge in settings.judges.built.values():
        yield from judge.citations


def _of_training(settings: InversionSweep) -> Iterable[str]:
    """Plain training cites no paper: label smoothing with a factor of 0 is none."""
    from smoothsweep.core.defenses.registry import DEFENSES  # torch, which a report does without

    if isinstance(settings.recipe, ImportedClassifier):
        stated = settings.recipe.stated_defense or {}
        kind, alpha = stated.get("kind"), stated.get("alpha") or 0
    else:
        kind, alpha = settings.recipe.defense.kind, settings.recipe.defense.final_alpha
    if kind in DEFENSES and kind != SMOOTHING:
        yield from DEFENSES[kind].cites
    if alpha:
        yield from DEFENSES[SMOOTHING].cites


MOST_INDEX, MOST_FILE = 32 * 2**20, 64 * 2**30


def digest(content: bytes | Iterable[bytes]) -> str:
    """SHA-256 of all pieces one after the other, as hexadecimal digits."""
    found = sha256()
    for piece in (content,) if isinstance(content, bytes) else content:
        found.update(piece)
    return found.hexdigest()


def refuse_other_content(out: Path, index: str, flag: str = "--out") -> None:
    """Raise InputError unless there is nothing at `out`, an empty folder, or an earlier export that was not edited.

    index: the name of the list of files in such a folder.
    """
    if not out.is_dir():
        if os.path.lexists(out):
            raise InputError(f"{flag} {out}: expected a new or empty folder, got a file")
        return
    there = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    if not there:
        return
    known = {**_listed(out / index), index: None}
    for name in there:
        if name not in known:
            raise InputError(f"{flag} {out}: expected a new or empty folder, got one that holds {name}")
        if known[name] is not None and digest(pieces_of(out / name, most_bytes=MOST_FILE)) != known[name]:
            raise InputError(f"{flag} {out}: expected a new or empty folder, got an export whose {name} was edited")


def write_folder(out: Path, files: Iterable[tuple[str, bytes]], index: str, about: Mapping[str, Any]) -> list[str]:
    """Write the files and the list of them; nothing is at `out` before all are written. Returns their names."""
    digests: dict[str, str] = {}
    with making_folder(draft_folder(out)) as draft:
        for name, content in files:
            digests[name] = digest(content)
            write_file(draft / name, content, parents=True, flush=False)  # the folder is flushed as a whole
        listed = {**about, "files": dict(sorted(digests.items()))}
        write_file(draft / index, json.dumps(listed, indent=1, ensure_ascii=False) + "\n", flush=False)
    put_in_place(draft_folder(out), out)
    return [*digests, index]


def put_in_place(finished: Path, out: Path) -> None:
    """Give a finished folder its name; what `refuse_other_content` has allowed there goes away."""
    old = None
    try:
        if out.is_dir():
            old = temporary_name(out)
            move(out, old)
        move(finished, out)
    finally:
        shutil.rmtree(finished, ignore_errors=True)
        if old is not None:
            if not out.exists():
                move(old, out)
            shutil.rmtree(old, ignore_errors=True)


def draft_folder(out: Path) -> Path:
    """Where a folder is made ready; the name is of this process alone."""
    return out.with_name(f".{out.name}.{os.getpid()}.ready")


def _listed(index: Path) -> dict[str, str]:
    """Name -> digest, as an index says; empty where there is none that can be read."""
    try:
        files = json.loads(read_whole(index, most_bytes=MOST_INDEX))["files"]
        return {str(name): str(value) for name, value in files.items()}
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError):
        return {}


Choice = Literal["best", "all", "none"]
PROVENANCE = "images/provenance.json"
MOST_NAME = 60


@dataclass(frozen=True, kw_only=True)
class ExportedTrial:
    """One trial whose reconstructions are exported, by the report's names; ranks: how many of each class, None: all."""

    recipe: str
    attack: str
    trial: Trial
    stages: InversionStages
    ranks: int | None


def trials_to_export(
    choice: Choice, trials: Sequence[Trial], axes: Sequence[Axis], result: SweepResult, store: Store
) -> list[ExportedTrial]:
    """The trials whose reconstructions are exported, of those that the store has.

    best: of the first seed, against each recipe by the attack that works best against it (by any where no leak was
    measured), of every class the reconstruction that the attack ranks first. all: everything.
    """
    if choice == "none":
        return []
    strongest = dict(zip(result.recipes["recipe"], result.recipes["attack"], strict=True))
    exported = []
    for attack, recipes in by_attack([trial for trial in trials if trial.phase == "sweep"], axes).items():
        for recipe, of_recipe in recipes.items():
            best = strongest.get(recipe) in (None, attack)
            if choice == "best" and (not best or of_recipe[0].is_control):
                continue
            for trial in of_recipe if choice == "all" else of_recipe[:1]:
                stages = _stages(trial, store)
                if stages is not None:
                    ranks = None if choice == "all" else 1
                    exported.append(
                        ExportedTrial(recipe=recipe, attack=attack, trial=trial, stages=stages, ranks=ranks)
                    )
    return exported


def reconstruction_files(sweep: str, pictures: Sequence[ExportedTrial], store: Store) -> Iterator[tuple[str, bytes]]:
    """The pictures by their names, and last the list of where they come from."""
    entries: list[dict[str, Any]] = []
    folders: dict[tuple[str, str], str] = {}  # of attack and recipe, each name given once
    for exported in pictures:
        labels, names = reconstructed_labels(store, exported.stages), class_names(store, exported.stages)
        place = f"images/{_slug(exported.attack or 'attack')}/{_slug(exported.recipe)}"
        taken = sum(folder.partition("--")[0] == place for folder in folders.values())
        folder = folders.setdefault((exported.attack, exported.recipe), f"{place}--{taken + 1}" if taken else place)
        for label in map(int, np.unique(labels)):
            count = int((labels == label).sum())
            for rank in range(count if exported.ranks is None else min(exported.ranks, count)):
                entry = _provenance(sweep, exported, names[label], label, rank, store)
                text = PngInfo()
                text.add_itxt(KEY, json.dumps(entry, ensure_ascii=False))
                pixels = reconstruction(store, exported.stages, label, rank).transpose(1, 2, 0)
                image = png(Image.fromarray(np.ascontiguousarray(pixels)), text)
                name = f"{folder}/seed{exported.trial.seed}-class{label:04d}-rank{rank + 1:02d}.png"
                entries.append({"file": name, "sha256": digest(image), **entry})
                yield name, image
    yield PROVENANCE, (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()


def _stages(trial: Trial, store: Store) -> InversionStages | None:
    settings = as_inversion(trial.settings)
    if settings.attack is None:
        return None
    stages = inversion_stages(settings, trial.seed)
    return stages if stages.has_pictures(store) else None


def _provenance(sweep: str, exported: ExportedTrial, name: str, label: int, rank: int, store: Store) -> dict[str, Any]:
    """Where a picture comes from; rank: from 0, counted from 1 for readers."""
    reconstructions = exported.stages.inverted
    return {
        "kind": "reconstruction by an attack on a model, not a photograph",
        "sweep": sweep,
        "trial": exported.trial.id,
        "recipe": typable(exported.recipe),
        "attack": typable(exported.attack),
        "seed": exported.trial.seed,
        "class": label,
        "class_name": name,
        "rank": rank + 1,
        "judge": judge_name(exported.stages),
        "matched": is_recognised(store, exported.stages, label, rank),
        "stages": {
            "reconstructions": reconstructions.fingerprint,
            "attack": present(exported.stages.attack, "attack").fingerprint,
            "target": exported.stages.target.fingerprint,
            "data": exported.stages.data.fingerprint,
        },
    }


def _slug(text: str) -> str:
    """A name for a folder: letters, digits, signs of numbers."""
    plain = re.sub(r"[^a-z0-9.+]+", "-", re.sub(r"(?<![\w])-(?=[\d.])", "minus", ascii_text(text).lower()))
    return plain.strip("-.")[:MOST_NAME].rstrip("-.") or "unnamed"


TABLES = ("latex", "csv", "md")
FIGURES = ("pdf", "svg", "png")
BIBLIOGRAPHY = "references.bib"
OVERVIEW = "overview.png"
"""The figure of the report that shows photographs; an export has its parts."""


@dataclass(frozen=True, kw_only=True)
class SweepContents:
    """A sweep as it is exported: its trials, what a report shows of it, and its result."""

    loaded: LoadedSweep
    trials: list[Trial]
    store: Store
    data: ReportData
    result: SweepResult
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self.loaded.sweep.name


def gather_sweep(loaded: LoadedSweep, trials: list[Trial], store: Store, *, redact: bool = False) -> SweepContents:
    """Read what is there of a sweep. redact: classes get numbers for names. Raises InputError where nothing is."""
    table = results_table(trials, store, read_failures(store, loaded.sweep.name))
    if not (table["status"] == "done").any():
        raise InputError(f"{loaded.source}: expected a finished trial in {store.location}, got none")
    data = report_data(loaded, trials, store, table, store.sweep_folder(loaded.sweep.name))
    data = without_names(data) if redact else data
    return SweepContents(loaded=loaded, trials=trials, store=store, data=data, result=result_of(data), table=table)


def without_names(data: ReportData) -> ReportData:
    """The report's data with numbers for the names of classes, in the names' own order, which resampling goes by."""
    if data.per_class is None:
        return data
    known = sorted(data.per_class["class"].unique())
    numbers = {name: f"class {number:0{len(str(len(known)))}d}" for number, name in enumerate(known, start=1)}
    return replace(data, per_class=data.per_class.assign(**{"class": data.per_class["class"].map(numbers)}))


def table_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The tables in these formats."""
    for table in tables_of(sweep.result):
        label = f"tab:{sweep.name}-{table.stem}"
        for kind in kinds:
            if kind == "latex":
                for ending, text in latex_tables(table, label).items():
                    yield f"tables/{table.stem}{ending}.tex", text.encode()
            else:
                write = {"csv": csv_table, "md": markdown_table}[kind]
                yield f"tables/{table.stem}.{kind}", write(table).encode()


def figure_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """The report's figures in these formats."""
    figures = Figures(data=sweep.data, result=sweep.result)
    drawn = {"frontier.svg": figures.frontier(), **figures.files()} if kinds else {}
    for file, canvas in drawn.items():
        if canvas is not None and file != OVERVIEW:
            for kind in kinds:
                name = f"figures/{file.rpartition('.')[0]}.{kind}"
                yield name, canvas.file(name)


def image_files(sweep: SweepContents, choice: Choice, *, sheets: bool = True) -> Iterator[tuple[str, bytes]]:
    """Reconstructions, and sheets of them beside training images. sheets: False where a report has those already.

    Raises InputError where the store has no reconstructions.
    """
    pictures = trials_to_export(choice, sweep.trials, sweep.data.axes, sweep.result, sweep.store)
    if choice == "none":
        return
    if not pictures:
        raise InputError(f"--images {choice}: expected reconstructions in {sweep.store.location}, got none")
    yield from reconstruction_files(sweep.name, pictures, sweep.store)
    drawn = contact_sheets(sweep.trials, sweep.store, sweep.data, sweep.result) if sheets else ()
    for number, sheet in enumerate(drawn, start=1):
        yield f"images/sheet-{number}.png", png(sheet_image(sheet))


def references(sweep: SweepContents) -> tuple[str, bytes]:
    """The BibTeX file of everything that the sweep used."""
    return BIBLIOGRAPHY, bibliography_of(sweep.trials).encode()


def overview_facts(sweep: SweepContents, **more: Any) -> Mapping[str, Any]:
    """What the list of an export's files says of the sweep."""
    done = int((sweep.data.results["status"] == "done").sum())
    return {
        "sweep": sweep.name,
        "protocol": sweep.data.protocol,
        "code": sweep.data.facts["Code"],
        "trials": {"finished": done, "planned": len(sweep.data.results)},
        **({"licences": licences} if (licences := prior_licences(sweep.trials)) else {}),
        **more,
    }


INDEX = "export.json"


def export(request: ExportRequest) -> int:
    """Write the export. Returns the exit code; raises InputError before anything is written."""
    tables = formats("--tables", request.tables, TABLES)
    figures = formats("--figures", request.figures, FIGURES)
    images = _images(request)
    refuse_other_content(request.out, INDEX)
    loaded, trials, store = sweep_to_share(request.sweep, request.overrides, request.store)
    sweep, _ = read_with_repair(lambda: gather_sweep(loaded, trials, store, redact=request.redact))
    if request.images is None and not _has_pictures(loaded):
        images = "none"

    def files() -> Iterator[tuple[str, bytes]]:
        yield references(sweep)
        yield from table_files(sweep, tables)
        yield from figure_files(sweep, figures)
        yield from image_files(sweep, images)

    about = overview_facts(sweep, images=images, redacted=request.redact)
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
    screen.out(f"{request.out / BIBLIOGRAPHY}: what to cite")
    if any(name.startswith("images/") for name in names):
        screen.out("images show people as the models remember them, sheets beside training images: mind who sees them")
