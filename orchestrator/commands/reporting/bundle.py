"""`smoothsweep bundle` and `report OUT.zip`: a finished sweep as one file that a colleague checks and opens."""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core import screen
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, replacing, write_file, write_pieces
from smoothsweep.core.readers.files import MOST_MEMBERS, Members, members_of, read_text, why_unread
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands import run
from smoothsweep.orchestrator.commands.reporting.export import (
    TABLES,
    SweepContents,
    digest,
    draft_folder,
    gather_sweep,
    image_files,
    overview_facts,
    put_in_place,
    references,
    refuse_other_content,
    sweep_to_share,
    table_files,
)
from smoothsweep.orchestrator.commands.reporting.report import contact_sheets, write_gathered
from smoothsweep.orchestrator.commands.requests import BundleRequest
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.rows import measured, with_recipes, write_rows
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.result.sweep_result import SweepResult
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, with_ancestors
from smoothsweep.orchestrator.store.notes import read_with_repair
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.tasks.registry import TASKS

INDEX = "bundle.json"
_TEXT = ("bib", "csv", "html", "json", "jsonl", "md", "svg", "tex", "txt", "yaml")
_STAGES, _FINGERPRINT = f"({'|'.join(sorted(TASKS))})", "[0-9a-f]{64}"
_HELD = (
    r"report\.(html|txt)|sweep\.yaml|comparison\.json|references\.bib|[a-z_]+\.parquet",
    r"(figures|images|tables)/.+\.(csv|json|md|pdf|png|svg|tex)",
    rf"manifests/{_STAGES}/{_FINGERPRINT}\.json",
)
"""All that a bundle may hold: no program, and nothing of a store but its manifests."""
MOST_DEFLATED = 32 * 2**20
"""Bytes of text that are compressed, all together: what opens a bundle takes no more that unpacks to more."""
MOST_PARTS, LONGEST_PART = 8, 200
_PART = re.compile(r"[A-Za-z0-9_+=@,()-][A-Za-z0-9_.+=@,() -]*")


class Index(BaseModel):
    """bundle.json: what a bundle is of, and every other file with its digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundle: Literal[1]
    sweep: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    protocol: str = Field(max_length=20)
    code: str = Field(max_length=200)
    trials: dict[str, int]
    images: bool
    artifacts: bool = False  # of earlier bundles
    files: dict[str, str]


COMPARISON, ROWS_BY_CLASS = "comparison.json", "per_class.parquet"
Scalar = str | int | float | bool | None
Digest = Annotated[str, Field(max_length=64)]


class RowConditions(BaseModel):
    """What a row of the results rests on. A digest is equal wherever nothing but the trial's own target differs.

    Attributes:
        recipe: Fingerprint of the trained network under `SEED`; `label` is the report's name of the recipe.
        attack: Digest; `attack_label` is its name in tables.
        data: Fingerprint of the private data.
        judges: Stage -> digest.
        defense: As the sweep states it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    trial: str = Field(pattern=r"^[0-9a-f]{12}$")
    recipe: Digest
    label: str
    attack: Digest
    attack_label: str
    data: Digest
    judges: dict[str, Digest]
    defense: dict[str, Any] | None = None


class Conditions(BaseModel):
    """comparison.json: what a sweep's numbers rest on, so that its rows can be compared with those of another sweep.

    Attributes:
        baseline: The reference recipe by the report's name, None without one or with several.
        primary: The leak that decides, where the sweep's search names one.
        settings: Digest of data or attack -> what it was made of by dotted keys, to say how two differ.
        reasons: Metric -> why it was not measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["clean", "paper"]
    baseline: str | None = None
    min_test_acc: float | None = None
    accuracy_margin: float
    primary: str | None = None
    people: int | None = None
    real_images: int | None = None
    reasons: dict[str, str]
    trials: tuple[RowConditions, ...] = Field(min_length=1)
    settings: dict[Digest, dict[str, Scalar]]


SEED = 0
"""Stages are compared under one seed; which seeds were run is compared by itself."""


def conditions_of(trials: Sequence[Trial], data: ReportData, result: SweepResult) -> Conditions:
    """The conditions of a sweep in the store. trials: all; those of fresh seeds and cheap attacks are left out.

    A stage's fingerprint covers everything that it rests on, the recipe included. Here the trial's own target, and for
    judges its attack, are replaced by a word.
    """
    notes, settings = [], {}
    for trial in trials:
        if trial.phase != "sweep":
            continue
        sweep = as_inversion(trial.settings)
        stages, leaves = inversion_stages(sweep, SEED), sweep.model_dump(mode="json", exclude_none=True)
        masked = {stages.target.fingerprint: "target"}
        attack = "" if stages.attack is None else _digest(stages.attack, masked)
        if stages.attack is not None:
            masked |= {stages.attack.fingerprint: "attack", stages.inverted.fingerprint: "reconstructions"}
        words = "" if sweep.attack is None else sweep.attack.words
        note = RowConditions(
            trial=trial.id,
            recipe=stages.target.fingerprint,
            label=recipe_label(data.axes, trial.cell.axes),
            attack=attack,
            attack_label=attack_label(data.axes, trial.cell.axes) or words,
            data=stages.data.fingerprint,
            judges={name: _digest(stage, masked) for name, stage in stages.judges.items()},
            defense=trial.stated_defense,
        )
        settings.setdefault(note.data, _leaves(leaves, "data"))
        settings.setdefault(note.attack, _leaves(leaves, "attack", "prior", "public", "classes"))
        notes.append(note)
    stated = ("protocol", "min_test_acc", "accuracy_margin", "primary", "people", "real_images")
    return Conditions(
        **{name: getattr(data, name) for name in stated},
        baseline=result.facts["baseline"],
        reasons=dict(data.reasons),
        trials=tuple(notes),
        settings=settings,
    )


def _digest(stage: Stage, masked: Mapping[str, str]) -> str:
    """The stage's fingerprint with words in the place of these inputs."""
    inputs = {name: masked.get(source.fingerprint) or _digest(source, masked) for name, source in stage.inputs.items()}
    return digest(f"{stage.name} {stage.task.version} {canonical_json(stage.config)} {sorted(inputs.items())}".encode())


def _leaves(settings: Mapping[str, Any], *keys: str) -> dict[str, Scalar]:
    """Dotted key -> value, of what stands below these keys."""
    leaves: dict[str, Scalar] = {}
    for key in keys:
        value = settings.get(key)
        if isinstance(value, Mapping):
            leaves |= {f"{key}.{inner}": each for inner, each in _leaves(value, *value).items()}
        elif key in settings:
            leaves[key] = value if isinstance(value, str | int | float | bool) else canonical_json(value)
    return leaves


def write_archive(out: Path, root: str, files: Iterable[tuple[str, bytes]], about: Mapping[str, Any]) -> str:
    """Write the bundle, its index last; the digest of the index, which stands for all of it. Raises InputError for
    more files than can be opened again."""
    digests: dict[str, str] = {}
    room = MOST_DEFLATED

    def add(name: str, content: bytes, how: int) -> str:
        entry = zipfile.ZipInfo(f"{root}/{name}")  # of no date: the same content is the same file
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, content, compress_type=how)
        return digest(content)

    with replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in files:
            refuse_name(name, f"{out}")
            if len(digests) + 2 > MOST_MEMBERS:
                raise InputError(f"{out}: expected a bundle of at most {MOST_MEMBERS} files, got more")
            deflate = name.rpartition(".")[2] in _TEXT and len(content) <= room
            room -= len(content) if deflate else 0
            digests[name] = add(name, content, zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED)
        index = json.dumps({**about, "files": dict(sorted(digests.items()))}, indent=1).encode()
        return add(INDEX, index, zipfile.ZIP_STORED)


def index_of(members: Members, where: str) -> tuple[Index, str]:
    """The checked index of a bundle, and its digest.

    Raises InputError for a file that is no bundle, names files that it does not list, or lists a file that it lacks,
    whose name would leave its folder, or that has no place in a bundle (`_HELD`).
    """
    if INDEX not in members:
        raise InputError(f"{where}: expected a bundle of smoothsweep, got an archive without {INDEX}")
    content = members.read(INDEX)
    try:
        index = Index.model_validate(json.loads(content.decode("utf-8")))
    except ValidationError as error:
        raise InputError(f"{where}: {INDEX}: {first_mistake(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {INDEX}: expected the list of a bundle's files, got: {why_unread(error)}") from None
    for name in index.files:
        refuse_name(name, where)
    folders = {name.rsplit("/", depth)[0] for name in index.files for depth in range(1, name.count("/") + 1)}
    if both := sorted(folders & set(index.files)):
        raise InputError(f"{where}: expected files in folders, got {quoted(both[0])}, which is both")
    if others := sorted({INDEX, *index.files} ^ set(members)):
        raise InputError(f"{where}: expected the files that {INDEX} lists, got another set: {quoted(others[0])}")
    return index, digest(content)


def refuse_name(name: str, where: str) -> None:
    """Raise InputError for the name of a file that a bundle does not hold."""
    parts = name.split("/")
    good = len(parts) <= MOST_PARTS and all(_PART.fullmatch(part) and len(part) <= LONGEST_PART for part in parts)
    if not good:
        raise InputError(f"{where}: expected plain names of files, got {quoted(name)}")
    if not any(re.fullmatch(held, name) for held in _HELD):
        raise InputError(f"{where}: expected the report and tables of a sweep, got {quoted(name)}")


SETTINGS, TEXT, STORE = "sweep.yaml", "report.txt", "store"


def bundle(request: BundleRequest) -> int:
    """Write the bundle. Returns the exit code; raises InputError before anything is written."""
    if request.out.suffix != ".zip":
        raise InputError(f"{request.out}: expected the name of a file that ends in .zip")
    if os.path.lexists(request.out):
        raise InputError(f"{request.out}: expected a new file, got one that is there already")
    if not request.out.parent.is_dir():
        raise InputError(f"{request.out}: expected a file in a folder that is there, got no such folder")
    loaded, trials, store = sweep_to_share(request.sweep, request.overrides, request.store)
    sweep, _ = read_with_repair(lambda: gather_sweep(loaded, trials, store))
    about = overview_facts(sweep, bundle=1, images=request.with_images)

    def written() -> str:
        with tempfile.TemporaryDirectory(prefix="smoothsweep-bundle-") as folder:
            files = _files(sweep, request, Path(folder))
            return write_archive(request.out, sweep.name, files, about)

    found, _ = read_with_repair(written)
    screen.out(f"{request.out}: {request.out.stat().st_size / 2**20:.1f} MiB, digest {found}")
    screen.out(f"to open it: smoothsweep report {request.out.name}")
    if request.with_images:
        screen.out("it holds training images beside reconstructions: mind who gets it")
    return 0


def _files(sweep: SweepContents, request: BundleRequest, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files by their names; the report is written into `folder` first."""
    data = without_local_paths(sweep.data)
    if request.with_images:
        data = replace(data, sheets=contact_sheets(sweep.trials, sweep.store, data, sweep.result))
    write_rows(measured(with_recipes(sweep.table, data.axes)), folder / "results.parquet")
    if data.per_class is not None:
        write_rows(data.per_class, folder / ROWS_BY_CLASS)
    text, _, _ = write_gathered(data, sweep.result, folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path.read_bytes()
    yield TEXT, f"{text}\n".encode()
    # the sweep as a file of its own: its opening comment, and its settings with everything that was set over them
    comment = "".join(f"# {line}".rstrip() + "\n" for line in sweep.loaded.intro.splitlines())
    yield SETTINGS, (comment + yaml.safe_dump(sweep.loaded.raw, sort_keys=False, allow_unicode=True)).encode()
    yield COMPARISON, conditions_of(sweep.trials, sweep.data, sweep.result).model_dump_json(indent=1).encode()
    yield references(sweep)
    yield from table_files(sweep, TABLES)
    if request.with_images:
        yield from image_files(sweep, "best", sheets=False)
    for stage in with_ancestors([stage for trial in sweep.trials for stage in trial.stages]):
        if sweep.store.has(stage):
            content = json.dumps(sweep.store.manifest(stage), indent=1, sort_keys=True)
            yield _manifest_name(stage.name, stage.fingerprint), content.encode()


def without_local_paths(data: ReportData) -> ReportData:
    """The report without places on this machine; links lead to the manifests in the bundle."""
    links = {
        trial: tuple(replace(link, path=_manifest_name(*Path(link.path).parts[-3:-1])) for link in of_trial)
        for trial, of_trial in data.links.items()
    }
    facts = {name: value for name, value in data.facts.items() if name != "Store"} | {"Sweep file": SETTINGS}
    return replace(data, links=links, facts=facts)


def _manifest_name(stage: str, fingerprint: str) -> str:
    return f"manifests/{stage}/{fingerprint}.json"


PAGE = "report.html"
DEFAULT_STORE = "store"
"""What `--store` is where it is not given: a bundle has no use for another."""
MOST_TEXT = 16 * 2**20


def report_or_open(sweep: Path, overrides: list[str], store: str, out: Path | None) -> int:
    """The report of a sweep, or of the bundle that is named in its place. Returns the exit code."""
    if sweep.suffix != ".zip":
        return run.report_only(sweep, overrides, store, out)
    for flag, is_given in (("--set", overrides), ("--store", store != DEFAULT_STORE)):
        if is_given:
            raise InputError(f"{flag}: expected a sweep file beside it, got the bundle {sweep}")
    return report_bundle(sweep, out)


@contextmanager
def opened_bundle(path: Path, *needed: str) -> Generator[tuple[Members, Index, str]]:
    """Its files, its index and the digest of that. needed: files that it must have. Raises InputError for what is no
    whole bundle."""
    if not path.is_file():
        raise InputError(f"{path}: expected a bundle, got no such file")
    with members_of(path, "a bundle of smoothsweep") as members:
        index, found = index_of(members, str(path))
        for name in needed:
            if name not in index.files:
                raise InputError(f"{path}: expected a bundle with {name}, got one without")
        yield members, index, found


def checked_pieces(members: Members, name: str, index: Index, path: Path) -> Iterator[bytes]:
    """The content of a file piece by piece. Raises InputError at its end where it is not what the index says."""
    found = sha256()
    for piece in members.pieces(name):
        found.update(piece)
        yield piece
    if found.hexdigest() != index.files[name]:
        raise InputError(f"{path}: {name}: expected the content whose digest the bundle has, got another")


def report_bundle(path: Path, out: Path | None) -> int:
    """Check the bundle, lay it out at `out` (by default beside it), print its table. Returns the exit code.

    Nothing in it is run or unpickled. Raises InputError for what is no whole bundle, and leaves nothing then.
    """
    out = out or path.with_suffix("")
    refuse_other_content(out, INDEX)
    with (
        opened_bundle(path, PAGE, TEXT, SETTINGS) as (members, index, found),
        making_folder(draft_folder(out)) as draft,
    ):
        for name in index.files:
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            write_pieces(draft / name, checked_pieces(members, name, index, path))
        write_file(draft / INDEX, members.read(INDEX))
    put_in_place(draft_folder(out), out)
    screen.out_text(read_text(out / TEXT, most_bytes=MOST_TEXT).rstrip("\n"))
    screen.out(f"bundle of {index.sweep}: {len(index.files)} files as listed, digest {found}")
    screen.out(f"report: {out / PAGE}")
    screen.out(f"to go on: smoothsweep run {out / SETTINGS} --store {out / STORE}")
    return 0
