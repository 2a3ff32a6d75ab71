"""`smoothsweep bundle` and `report OUT.zip`: a finished sweep as one file that a colleague checks and opens."""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core import screen
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import replacing
from smoothsweep.core.readers.files import MOST_MEMBERS, Members, members_of, why_unread
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands.reporting.export import (
    BIBLIOGRAPHY,
    Named,
    bibliography_of,
    digest,
    overview_facts,
    reconstruction_files,
    refuse_other_content,
    table_files,
    with_index,
    write_folder,
)
from smoothsweep.orchestrator.commands.reporting.report import (
    SweepContents,
    compared_trials,
    contact_sheets,
    gather_sweep,
    sweep_to_share,
    write_gathered,
)
from smoothsweep.orchestrator.commands.requests import TABLES, BundleRequest
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.result.rows import measured, with_recipes, write_rows
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, with_ancestors
from smoothsweep.orchestrator.store.notes import read_with_repair
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.tasks.registry import TASKS

INDEX = "bundle.json"
_TEXT = ("bib", "csv", "html", "json", "jsonl", "md", "svg", "tex", "txt", "yaml")
_PART = r"/[A-Za-z0-9_+=@,()-][A-Za-z0-9_.+=@,() -]{0,199}"
_HELD = (
    r"report\.(html|txt)|sweep\.yaml|(bundle|comparison)\.json|references\.bib|[a-z_]+\.parquet"
    rf"|(figures|images|tables)({_PART}){{1,7}}\.(csv|json|md|pdf|png|svg|tex)"
    rf"|manifests/({'|'.join(sorted(TASKS))})/[0-9a-f]{{64}}\.json"
)
"""All that a bundle may hold, by plain names: no program, and nothing of a store but its manifests."""
MOST_DEFLATED = 32 * 2**20
"""Bytes of text that are compressed, all together: what opens a bundle takes no more that unpacks to more."""


class Index(BaseModel):
    """bundle.json: what a bundle is of, and every other file with its digest. The rest of it is for readers."""

    bundle: Literal[1]
    sweep: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    files: dict[str, str]


STATED = ("protocol", "min_test_acc", "accuracy_margin", "primary", "people", "real_images")
"""Fields of the report's data that are conditions of all rows."""
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


def conditions_of(sweep: SweepContents) -> Conditions:
    """The conditions of a sweep in the store, without its trials of fresh seeds and cheap attacks.

    A stage's fingerprint covers everything that it rests on, the recipe included. Here the trial's own target, and for
    judges its attack, are replaced by a word.
    """
    notes, settings = [], {}
    for trial in compared_trials(sweep.trials):
        inverted = as_inversion(trial.settings)
        stages, leaves = inversion_stages(inverted, SEED), inverted.model_dump(mode="json", exclude_none=True)
        masked, attack = {stages.target.fingerprint: "target"}, ""
        if stages.attack is not None:
            attack = _digest(stages.attack, masked)
            masked |= {stages.attack.fingerprint: "attack", stages.inverted.fingerprint: "reconstructions"}
        words = "" if inverted.attack is None else inverted.attack.words
        note = RowConditions(
            trial=trial.id,
            recipe=stages.target.fingerprint,
            label=recipe_label(sweep.data.axes, trial.cell.axes),
            attack=attack,
            attack_label=attack_label(sweep.data.axes, trial.cell.axes) or words,
            data=stages.data.fingerprint,
            judges={name: _digest(stage, masked) for name, stage in stages.judges.items()},
            defense=trial.stated_defense,
        )
        settings.setdefault(note.data, _leaves(leaves, "data"))
        settings.setdefault(note.attack, _leaves(leaves, "attack", "prior", "public", "classes"))
        notes.append(note)
    return Conditions(
        **{name: getattr(sweep.data, name) for name in STATED},
        baseline=sweep.result.facts["baseline"],
        reasons=dict(sweep.data.reasons),
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


def write_archive(out: Path, root: str, files: Iterable[Named]) -> str:
    """Write the bundle; the digest of its last file, the index, which stands for all of it. Raises InputError for more
    files than can be opened again."""
    found, room = "", MOST_DEFLATED
    with replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for number, (name, content) in enumerate(files, start=1):
            if number > MOST_MEMBERS:
                raise InputError(f"{out}: expected a bundle of at most {MOST_MEMBERS} files, got more")
            refuse_name(name, f"{out}")
            deflate = name.rpartition(".")[2] in _TEXT and len(content) <= room
            room -= len(content) if deflate else 0
            entry = zipfile.ZipInfo(f"{root}/{name}")  # of no date: the same content is the same file
            entry.external_attr = 0o644 << 16
            how = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            archive.writestr(entry, content, compress_type=how)
            found = digest(content)
    return found


def refuse_name(name: str, where: str) -> None:
    """Raise InputError for the name of a file that a bundle does not hold."""
    if not re.fullmatch(_HELD, name):
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
            return write_archive(request.out, sweep.name, with_index(files, INDEX, about))

    found, _ = read_with_repair(written)
    screen.out(f"{request.out}: {request.out.stat().st_size / 2**20:.1f} MiB, digest {found}")
    screen.out(f"to open it: smoothsweep report {request.out.name}")
    if request.with_images:
        screen.out("it holds training images beside reconstructions: mind who gets it")
    return 0


def _files(sweep: SweepContents, request: BundleRequest, folder: Path) -> Iterator[Named]:
    """The files by their names; the report, without places on this machine, is written into `folder` first."""
    links = {  # they lead to the manifests in the bundle
        trial: tuple(replace(link, path=_manifest_name(*Path(link.path).parts[-3:-1])) for link in of_trial)
        for trial, of_trial in sweep.data.links.items()
    }
    facts = {name: value for name, value in sweep.data.facts.items() if name != "Store"} | {"Sweep file": SETTINGS}
    data = replace(sweep.data, links=links, facts=facts)
    if request.with_images:
        data = replace(data, sheets=contact_sheets(sweep.trials, sweep.store, data, sweep.result))
    write_rows(measured(with_recipes(sweep.table, data.axes)), folder / "results.parquet")
    if data.per_class is not None:
        write_rows(data.per_class, folder / ROWS_BY_CLASS)
    text, _ = write_gathered(data, sweep.result, folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.relative_to(folder).as_posix(), path.read_bytes()
    yield TEXT, f"{text}\n".encode()
    # the sweep as a file of its own: its opening comment, and its settings with everything that was set over them
    comment = "".join(f"# {line}".rstrip() + "\n" for line in sweep.loaded.intro.splitlines())
    yield SETTINGS, (comment + yaml.safe_dump(sweep.loaded.raw, sort_keys=False, allow_unicode=True)).encode()
    yield COMPARISON, conditions_of(sweep).model_dump_json(indent=1).encode()
    yield BIBLIOGRAPHY, bibliography_of(sweep.trials).encode()
    yield from table_files(sweep, TABLES)
    if request.with_images:
        yield from reconstruction_files(sweep, "best")
    for stage in with_ancestors([stage for trial in sweep.trials for stage in trial.stages]):
        if sweep.store.has(stage):
            content = json.dumps(sweep.store.manifest(stage), indent=1, sort_keys=True)
            yield _manifest_name(stage.name, stage.fingerprint), content.encode()


def _manifest_name(stage: str, fingerprint: str) -> str:
    return f"manifests/{stage}/{fingerprint}.json"


PAGE = "report.html"
MOST_TEXT = 16 * 2**20


class Bundle:
    """A bundle whose index has been checked: its files are read one by one, each checked when it is.

    Raises InputError for a file that is no bundle, names files that it does not list, or lists a file that it lacks,
    whose name would leave its folder, or that has no place in a bundle (`_HELD`).
    """

    def __init__(self, path: Path, members: Members) -> None:
        self.path, self._members = path, members
        if INDEX not in members:
            raise InputError(f"{path}: expected a bundle of smoothsweep, got an archive without {INDEX}")
        self.listed = members.read(INDEX)
        try:
            self.index = Index.model_validate(json.loads(self.listed.decode("utf-8")))
        except ValidationError as error:
            raise InputError(f"{path}: {INDEX}: {first_mistake(error)}") from None
        except (ValueError, RecursionError) as error:
            why = why_unread(error)
            raise InputError(f"{path}: {INDEX}: expected the list of a bundle's files, got: {why}") from None
        names = set(self.index.files)
        for name in self.index.files:
            refuse_name(name, str(path))
        folders = {name.rsplit("/", depth)[0] for name in names for depth in range(1, name.count("/") + 1)}
        if both := sorted(folders & names):
            raise InputError(f"{path}: expected files in folders, got {quoted(both[0])}, which is both")
        if others := sorted({INDEX, *names} ^ set(members)):
            raise InputError(f"{path}: expected the files that {INDEX} lists, got another set: {quoted(others[0])}")

    def read(self, name: str) -> bytes:
        """The content of a file, which is what the index says. Raises InputError for another, and without such a
        file."""
        if name not in self.index.files:
            raise InputError(f"{self.path}: expected a bundle with {name}, got one without")
        content = b"".join(self._members.pieces(name))
        if digest(content) != self.index.files[name]:
            raise InputError(f"{self.path}: {name}: expected the content whose digest the bundle has, got another")
        return content


@contextmanager
def opened_bundle(path: Path) -> Generator[Bundle]:
    """Raises InputError for what is no bundle."""
    if not path.is_file():
        raise InputError(f"{path}: expected a bundle, got no such file")
    with members_of(path, "a bundle of smoothsweep") as members:
        yield Bundle(path, members)


def report_bundle(path: Path, out: Path | None) -> int:
    """Check the bundle, lay it out at `out` (by default beside it), print its table. Returns the exit code.

    Nothing in it is run or unpickled. Raises InputError for what is no whole bundle, and leaves nothing then.
    """
    out = out or path.with_suffix("")
    refuse_other_content(out, INDEX)
    with opened_bundle(path) as opened:
        names = [*dict.fromkeys((PAGE, TEXT, SETTINGS, *opened.index.files))]
        write_folder(out, chain(((name, opened.read(name)) for name in names), [(INDEX, opened.listed)]))
        text = opened.read(TEXT)
    screen.out_text(text.decode("utf-8", "replace").rstrip("\n"))
    screen.out(f"bundle of {opened.index.sweep}: {len(names)} files as listed, digest {digest(opened.listed)}")
    screen.out(f"report: {out / PAGE}")
    screen.out(f"to go on: smoothsweep run {out / SETTINGS} --store {out / STORE}")
    return 0
