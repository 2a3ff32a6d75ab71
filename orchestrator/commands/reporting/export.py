"""`smoothsweep export`: the tables, figures, reconstructions and references that a paper on a sweep needs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.citations import PAPER, SOFTWARE, bibliography
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, move, temporary_name, write_file
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.text import typable
from smoothsweep.orchestrator.commands.reporting.report import (
    SweepContents,
    compared_trials,
    contact_sheets,
    gather_sweep,
    prior_licences,
    sweep_to_share,
)
from smoothsweep.orchestrator.commands.requests import ExportRequest
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import (
    KEY,
    class_names,
    is_recognised,
    judge_name,
    pictured_stages,
    png,
    reconstructed_labels,
    reconstruction,
    sheet_image,
)
from smoothsweep.orchestrator.page.tables import csv_table, latex_tables, markdown_table, tables_of
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import by_attack
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_with_repair
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep

Named = tuple[str, bytes]
"""A file by its name within a folder."""

SMOOTHING = "label_smoothing"


def bibliography_of(trials: Iterable[Trial]) -> str:
    """A BibTeX file. The software and the paper whose question it asks are always in it."""
    keys = {SOFTWARE, PAPER}
    for trial in trials:
        keys |= set(cited(as_inversion(trial.settings)))
    return bibliography(keys)


def cited(settings: InversionSweep) -> Iterator[str]:
    """The sources of one trial's settings. Plain training cites none: label smoothing with a factor of 0 is none."""
    yield from settings.data.cites
    if isinstance(settings.recipe, ImportedClassifier):
        stated = settings.recipe.stated_defense or {}
        kind, alpha = stated.get("kind"), stated.get("alpha") or 0
    else:
        kind, alpha = settings.recipe.defense.kind, settings.recipe.defense.final_alpha
    if kind in DEFENSES and kind != SMOOTHING:
        yield from DEFENSES[kind].cites
    if alpha:
        yield from DEFENSES[SMOOTHING].cites
    if settings.attack is not None:
        yield from settings.attack.built.citations
        if settings.reads_prior and settings.prior is not None:
            yield from settings.prior.row.cites
        if settings.reads_public and settings.public is not None:
            yield from settings.public.cites
    for judge in settings.judges.built.values():
        yield from judge.citations


MOST_FILE = 2**30  # of an export: bytes that are read to see whether it was edited


def refuse_other_content(out: Path, index: str) -> None:
    """Raise InputError unless there is nothing at `out`, an empty folder, or an earlier export that was not edited.

    index: the name of the list of files in such a folder.
    """
    if not out.is_dir():
        if os.path.lexists(out):
            raise InputError(f"--out {out}: expected a new or empty folder, got a file")
        return
    try:
        known = {**json.loads(read_whole(out / index, most_bytes=MOST_FILE))["files"], index: None}
    except (OSError, InputError, ValueError, KeyError, TypeError):
        known = {}
    for name in sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()):
        if name not in known:
            raise InputError(f"--out {out}: expected a new or empty folder, got one that holds {name}")
        if known[name] is not None and digest(read_whole(out / name, most_bytes=MOST_FILE)) != known[name]:
            raise InputError(f"--out {out}: expected a new or empty folder, got an export whose {name} was edited")


def digest(content: bytes) -> str:
    """SHA-256 as hexadecimal digits."""
    return sha256(content).hexdigest()


def with_index(files: Iterable[Named], index: str, about: Mapping[str, Any]) -> Iterator[Named]:
    """The files, and last the list of them, which says what they are of."""
    digests = {}
    for name, content in files:
        digests[name] = digest(content)
        yield name, content
    listed = {**about, "files": dict(sorted(digests.items()))}
    yield index, (json.dumps(listed, indent=1, ensure_ascii=False) + "\n").encode()


def write_folder(out: Path, files: Iterable[Named]) -> list[str]:
    """Write the files; nothing changes at `out`, which `refuse_other_content` has passed, before all are written.

    Returns their names.
    """
    names, finished, old = [], out.with_name(f".{out.name}.{os.getpid()}.ready"), None
    with making_folder(finished) as draft:
        for name, content in files:
            write_file(draft / name, content, parents=True, flush=False)  # the folder is flushed as a whole
            names.append(name)
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
    return names


Choice = Literal["best", "all", "none"]
PROVENANCE = "images/provenance.json"
MOST_NAME = 60


def reconstruction_files(sweep: SweepContents, choice: Choice) -> Iterator[Named]:
    """The reconstructions that the store has as pictures, and last the list of where they come from.

    choice: best: of the first seed, against each recipe by the attack that works best against it (by any where no leak
    was measured), of every class the reconstruction that the attack ranks first. all: everything. Raises InputError
    where there are none.
    """
    entries: list[dict[str, Any]] = []
    places: Counter[str] = Counter()
    strongest = dict(zip(sweep.result.recipes["recipe"], sweep.result.recipes["attack"], strict=True))
    for attack, recipes in by_attack(compared_trials(sweep.trials), sweep.data.axes).items():
        for recipe, trials in recipes.items():
            if choice == "best" and (strongest.get(recipe) not in (None, attack) or trials[0].is_control):
                continue
            tried = trials if choice == "all" else trials[:1]
            pictured = [(trial, found) for trial in tried if (found := pictured_stages(trial, sweep.store)) is not None]
            place = f"images/{_slug(attack or 'attack')}/{_slug(recipe)}"
            places[place] += bool(pictured)
            folder = f"{place}--{places[place]}" if places[place] > 1 else place
            told = {"sweep": sweep.name, "recipe": typable(recipe), "attack": typable(attack)}
            for trial, stages in pictured:
                labels, counts = np.unique(reconstructed_labels(sweep.store, stages), return_counts=True)
                for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
                    for rank in range(count if choice == "all" else 1):
                        entry = _provenance(told, trial, stages, label, rank, sweep.store)
                        name = f"{folder}/seed{trial.seed}-class{label:04d}-rank{rank + 1:02d}.png"
                        image = _with_text(reconstruction(sweep.store, stages, label, rank), entry)
                        entries.append({"file": name, "sha256": digest(image), **entry})
                        yield name, image
    if not entries:
        raise InputError(f"--images {choice}: expected reconstructions in {sweep.store.location}, got none")
    yield PROVENANCE, (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()


def _provenance(
    told: Mapping[str, str], trial: Trial, stages: InversionStages, label: int, rank: int, store: Store
) -> dict[str, Any]:
    """Where a picture comes from. told: its sweep, recipe and attack; rank: from 0, counted from 1 for readers."""
    return {
        "kind": "reconstruction by an attack on a model, not a photograph",
        "sweep": told["sweep"],
        "trial": trial.id,
        "recipe": told["recipe"],
        "attack": told["attack"],
        "seed": trial.seed,
        "class": label,
        "class_name": class_names(store, stages)[label],
        "rank": rank + 1,
        "judge": judge_name(stages),
        "matched": is_recognised(store, stages, label, rank),
        "stages": {
            "reconstructions": stages.inverted.fingerprint,
            "attack": present(stages.attack, "attack").fingerprint,
            "target": stages.target.fingerprint,
            "data": stages.data.fingerprint,
        },
    }


def _with_text(pixels: np.ndarray, entry: Mapping[str, Any]) -> bytes:
    """pixels: uint8 [H, W, 3], as a PNG file that says where it comes from."""
    text = PngInfo()
    text.add_itxt(KEY, json.dumps(entry, ensure_ascii=False))
    return png(Image.fromarray(pixels), text)


def _slug(text: str) -> str:
    """A name for a folder: letters, digits, signs of numbers."""
    plain = re.sub(r"[^a-z0-9.+]+", "-", re.sub(r"(?<![\w])-(?=[\d.])", "minus", ascii_text(text).lower()))
    return plain.strip("-.")[:MOST_NAME].rstrip("-.") or "unnamed"


BIBLIOGRAPHY = "references.bib"
OVERVIEW = "overview.png"
"""The figure of the report that shows photographs; an export has its parts."""


def table_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[Named]:
    """The tables in these formats."""
    for table in tables_of(sweep.result):
        found = {}
        if "latex" in kinds:
            named = latex_tables(table, f"tab:{sweep.name}-{table.stem}")
            found |= {f"{ending}.tex": text for ending, text in named.items()}
        found |= {
            f".{kind}": write(table) for kind, write in (("csv", csv_table), ("md", markdown_table)) if kind in kinds
        }
        for ending, text in found.items():
            yield f"tables/{table.stem}{ending}", text.encode()


def figure_files(sweep: SweepContents, kinds: tuple[str, ...]) -> Iterator[Named]:
    """The report's figures in these formats."""
    figures = Figures(data=sweep.data, result=sweep.result)
    drawn = {"frontier.svg": figures.frontier(), **figures.files()} if kinds else {}
    for file, canvas in drawn.items():
        if canvas is not None and file != OVERVIEW:
            for kind in kinds:
                name = f"figures/{file.rpartition('.')[0]}.{kind}"
                yield name, canvas.file(name)


def overview_facts(sweep: SweepContents, **more: Any) -> dict[str, Any]:
    """What the list of an export's files says of the sweep."""
    done = int((sweep.data.results["status"] == "done").sum())
    licences = prior_licences(sweep.trials)
    return {
        "sweep": sweep.name,
        "protocol": sweep.data.protocol,
        "code": sweep.data.facts["Code"],
        "trials": {"finished": done, "planned": len(sweep.data.results)},
        **({"licences": licences} if licences else {}),
        **more,
    }


INDEX = "export.json"


def export(request: ExportRequest) -> int:
    """Write the export. Returns the exit code; raises InputError before anything is written."""
    if request.redact and request.images not in (None, "none"):
        raise InputError(f"--images {request.images}: expected none beside --redact, which shows nobody")
    refuse_other_content(request.out, INDEX)
    loaded, trials, store = sweep_to_share(request.sweep, request.overrides, request.store)
    sweep, _ = read_with_repair(lambda: gather_sweep(loaded, trials, store, redact=request.redact))
    attacks = any(as_inversion(trial.settings).attack is not None for trial in trials)
    images = request.images or ("best" if attacks and not request.redact else "none")

    def files() -> Iterator[Named]:
        yield BIBLIOGRAPHY, bibliography_of(sweep.trials).encode()
        yield from table_files(sweep, request.tables)
        yield from figure_files(sweep, request.figures)
        if images != "none":
            yield from reconstruction_files(sweep, images)
            for number, sheet in enumerate(contact_sheets(trials, store, sweep.data, sweep.result), start=1):
                yield f"images/sheet-{number}.png", png(sheet_image(sheet))

    about = overview_facts(sweep, images=images, redacted=request.redact)
    names, _ = read_with_repair(lambda: write_folder(request.out, with_index(files(), INDEX, about)))
    for what in ("tables", "figures", "images"):
        count = sum(name.startswith(f"{what}/") and not name.endswith(".json") for name in names)
        if count:
            screen.out(f"{request.out / what}: {count} {what}")
    screen.out(f"{request.out / BIBLIOGRAPHY}: what to cite")
    if images != "none":
        screen.out("images show people as the models remember them, sheets beside training images: mind who sees them")
    return 0
