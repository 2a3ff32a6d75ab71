"""The artifact store: finished stages by fingerprint, unfinished work, small notes of a sweep.

`Store` keeps them on a file system that all nodes see; `store/remote.py` replaces where they lie on S3. Tasks read and
write folders of their own machine in either case, below `root`.

    <store>/<stage>/<fingerprint>/            what the stage made, and manifest.json (written last)
    <store>/<stage>/<fingerprint>.work/       what an unfinished stage keeps between attempts
    <store>/<stage>/.<fingerprint>.<writer>/               being written; renamed when complete
    <store>/damaged/<stage>/<fingerprint>.<random>/         was not what its manifest says: a user may want to look
    <store>/sweeps/<name>/                    state, notes and report of a sweep
    <store>/store.json                        the format's version
    <store>/linked.json                       other stores that are read, never written (store/opening.py)

A directory without a manifest does not exist. Everything is flushed to disk before the rename, so a machine that
loses power shows either the whole artifact or none. A manifest is checked whenever it is read, and a file when it is
handed out. What another store serves is held to more: the manifest must state the configuration and the inputs of the
stage that is asked for, and none but its owner, this user and root may be able to change it.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import ArtifactDamaged, InputError, StoreGone
from smoothsweep.core.files import (
    NotPlainError,
    half_written,
    move,
    plain_content,
    rename_folder,
    temporary_name,
    write_file,
)
from smoothsweep.core.writers import hold_folder, is_gone, release_folder
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.manifests import (
    FINGERPRINT,
    VERSION,
    VERSION_FILE,
    Damage,
    check_identity,
    checksum,
    note_as_right,
    read_manifest,
    sealed,
    sizes_of,
    stated_version,
    verify,
)
from smoothsweep.tasks.classes import NAMES_FILE, classes_of_stage
from smoothsweep.tasks.context import SharedFolders, read_progress, write_progress
from smoothsweep.tasks.registry import stage_label

MANIFEST = "manifest.json"
DAMAGED = "damaged"

_whole: dict[Path, tuple[tuple[int, ...], dict[str, Any]]] = {}  # artifact -> its manifest, and how that looked
_fit: dict[Path, dict[str, Any]] = {}  # artifact of another store -> its manifest, which was found fit to be used
_refused: set[Path] = set()  # artifacts of other stores that this process does not use
_told: set[str] = set()


@dataclass(frozen=True, kw_only=True)
class Store:
    """All paths of the store in one place: no other code joins file names.

    root: What of it lies on this machine.
    others: Stores that are only read, in this order, for what this one lacks.
    is_lent: Whether it is another's, which is only read.
    """

    root: Path
    others: tuple[Store, ...] = ()
    is_lent: bool = field(default=False, compare=False)
    _opened = False  # set, also on the copies that travel to workers, once there must be a version file

    # What is finished.

    def has(self, stage: Stage) -> bool:
        """Whether the stage is finished: a manifest that is as it was written, and all its files. A damaged artifact
        is told of and does not count; their contents are verified when they are read."""
        return _is_whole(self.place(stage)) or self._other(stage) is not None

    def path(self, stage: Stage) -> Path:
        """The folder of a finished artifact on this machine, with all its files, each of them verified.

        Raises ArtifactDamaged, the artifact set aside, where it is not what it was, and FileNotFoundError where there
        is none.
        """
        return self._verified(stage, self.manifest(stage)["files"])

    def file(self, stage: Stage, name: str) -> Path | None:
        """One file of a finished stage on this machine, verified; None where artifact or file are not there.

        Raises ArtifactDamaged as `path`.
        """
        with suppress(FileNotFoundError):
            files = self.manifest(stage)["files"]
            return self._verified(stage, {name: files[name]}) / name if name in files else None
        return None

    def needed_file(self, stage: Stage, name: str) -> Path:
        """As `file` of a stage whose kind always has it.

        Raises FileNotFoundError where the stage is not finished, and ArtifactDamaged also where it names no such file.
        """
        path = self.file(stage, name)
        if path is None and not self.has(stage):
            why = f"{stage.label} is gone; a run makes it again"
            raise FileNotFoundError(errno.ENOENT, why, str(self.place(stage)))
        if path is None:
            raise self._give_up(stage.name, stage.fingerprint, f"its manifest names no {name}")
        return path

    def manifest(self, stage: Stage) -> dict[str, Any]:
        """The manifest of a finished stage. Raises FileNotFoundError when it is not finished; else as `path`."""
        home = self._home(stage)
        try:
            return _artifact(home.place(stage))
        except Damage as damage:
            raise home._give_up(stage.name, stage.fingerprint, damage) from None

    def metrics(self, stage: Stage) -> dict[str, float | None]:
        """The numbers in the manifest of a finished stage."""
        return self.manifest(stage)["metrics"]

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        """Where the manifest of a stage of this kind lies on this machine."""
        files = [store.root / kind / fingerprint / MANIFEST for store in (self, *self.others)]
        return next((path for path in files if path.exists()), files[0])

    def manifest_of(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest that lies there. Raises OSError where none does, and Damage."""
        return read_manifest(plain_content(self.manifest_file(kind, fingerprint)), kind, fingerprint)

    def newest(self, kind: str, at_most: int) -> Iterator[dict[str, Any]]:
        """The newest manifests of this kind, its own first: one's own machine tells best what stages cost. One that was
        deleted meanwhile, or is damaged, is left out: who reads its artifact says so."""
        for path in self._newest(kind, at_most):
            with suppress(OSError, Damage):
                yield read_manifest(plain_content(path), kind, path.parent.name)

    def _newest(self, kind: str, at_most: int) -> list[Path]:
        known = []
        for path in self._manifests(kind):
            with suppress(OSError):  # removed meanwhile
                known.append((path.stat().st_mtime, str(path)))
        newest = [Path(path) for _, path in heapq.nlargest(at_most, known)]
        for other in self.others:
            newest += other._newest(kind, at_most - len(newest))
        return newest

    def finished(self, kind: str) -> set[str]:
        """Fingerprints of all finished stages of this kind."""
        here = {path.parent.name for path in self._manifests(kind)}
        return here.union(*(other.finished(kind) for other in self.others))

    def _manifests(self, kind: str) -> list[Path]:
        paths = (self.root / kind).glob(f"*/{MANIFEST}")
        return [path for path in paths if FINGERPRINT.fullmatch(path.parent.name)]

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest of an artifact, all of which was read now. Raises FileNotFoundError or Damage."""
        folder = self.manifest_file(kind, fingerprint).parent
        manifest = read_artifact(folder)
        for name, expected in manifest["files"].items():
            if checksum(folder / name) != expected:
                raise Damage(f"{name} differs from its checksum")
        return manifest

    def prepare(self, stages: Iterable[Stage]) -> None:
        """Make the manifests of these stages and their ancestors quick to read."""

    def look_again(self, stages: Iterable[Stage]) -> None:
        """Forget which of these stages this process has seen finished: another one set an artifact aside."""

    def place(self, stage: Stage) -> Path:
        """Where the artifact lies or would lie on this machine. Brings nothing here."""
        return self.root / stage.name / stage.fingerprint

    def _verified(self, stage: Stage, files: dict[str, str]) -> Path:
        """The artifact's folder on this machine, with these files in it (name -> SHA-256). Raises ArtifactDamaged."""
        home = self._home(stage)
        try:
            verify(home.place(stage), files)
        except Damage as damage:
            raise home._give_up(stage.name, stage.fingerprint, damage) from None
        return home.place(stage)

    def _give_up(self, kind: str, fingerprint: str, why: str | Exception) -> ArtifactDamaged:
        """Set an artifact aside that is not what it should be, or, in a lent store, no longer use it; the error that
        says so. Raises InputError where it cannot be moved."""
        folder, label = self.root / kind / fingerprint, stage_label(kind, fingerprint)
        if self.is_lent:
            _refused.add(folder)
            report_damage(f"{self.location}: {label} is not used: {why}; it is made anew")
            return ArtifactDamaged(f"{label} of {self.location}: {why}; it is made anew")
        try:
            place = _set_aside(folder)
        except OSError as error:
            raise InputError(f"{folder}: {why}, and it cannot be set aside: {error.strerror}") from None
        where = f"it is set aside in {place} and made again" if place else "it is made again"
        return ArtifactDamaged(f"{label}: {why}; {where}")

    def _home(self, stage: Stage) -> Store:
        """The store that serves this stage."""
        if not self.others or _is_whole(self.place(stage)):
            return self
        return self._other(stage) or self

    def _other(self, stage: Stage) -> Store | None:
        """The first other store that holds this stage, fit to be used; None if none does."""
        for other in self.others:
            place = other.place(stage)
            if place in _refused:
                continue
            try:
                manifest = _artifact(place)
                if _fit.get(place) is not manifest:
                    _check_other(stage, manifest, place)
                    _fit[place] = manifest
            except FileNotFoundError:
                continue
            except (Damage, OSError) as error:
                other._give_up(stage.name, stage.fingerprint, error)
                continue
            return other
        return None

    # What is being made.

    def work(self, stage: Stage) -> Path:
        """The folder on this machine that `working` opens."""
        return self.root / stage.name / f"{stage.fingerprint}.work"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Generator[Path]:
        """The folder in which an unfinished stage keeps what outlives an attempt, with what earlier attempts left.

        only: names (posix, relative) of the files the attempt needs of it, None for all.
        """
        work = self.work(stage)
        if work.is_symlink():
            raise InputError(f"{work}: expected a folder, got a link, which leads out of the store; remove it")
        self.check_there()
        work.mkdir(parents=True, exist_ok=True)
        yield work

    def kept(self, stage: Stage, folder: str) -> set[str]:
        """Names of the files that attempts at an unfinished stage left in this folder of their work."""
        return self._names(f"{stage.name}/{stage.fingerprint}.work/{folder}")

    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        """How far unfinished stages are: the mark each left last, or None."""
        return [read_progress(self.work(stage)) for stage in stages]

    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        """Leave a mark for an unfinished stage that has been worked on."""
        if self.work(stage).exists():
            write_progress(self.work(stage), fraction, text)

    def draft(self, stage: Stage) -> Path:
        """A fresh directory to write the artifact into; `commit` makes an artifact of it."""
        self.check_there()
        draft = temporary_name(self.place(stage))
        draft.mkdir(parents=True)
        hold_folder(draft)
        return draft

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft as the stage's artifact: checksums, manifest, flush, rename. If another writer was first,
        theirs stays."""
        self.check_there()
        manifest = seal_draft(stage, draft, manifest)
        release_folder(draft)
        write_file(draft / MANIFEST, manifest_text(manifest))
        final = self.place(stage)
        try:
            rename_folder(draft, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not self.has(stage):  # what is in the way is damaged, or has no manifest and does not exist
                _set_aside(final)
                rename_folder(draft, final)
        if draft.exists():
            shutil.rmtree(draft)
        else:
            note_as_right(final, manifest["files"])
        shutil.rmtree(self.work(stage), ignore_errors=True)
        return final

    def discard(self, stage: Stage) -> None:
        """Remove what there is of a stage, finished or not."""
        shutil.rmtree(self.place(stage), ignore_errors=True)
        shutil.rmtree(self.work(stage), ignore_errors=True)

    # Small files: notes of a sweep, the format's version.

    def read(self, key: str) -> bytes | None:
        """A small file of the store, or None."""
        try:
            return plain_content(self.root / key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except NotPlainError:
            return b""  # which none is: it counts as damaged

    def write(self, key: str, content: bytes) -> None:
        """Replace a small file of the store as a whole."""
        self.check_there()
        write_file(self.root / key, content, parents=True)

    def rename(self, key: str, to: str) -> None:
        """Give a small file of the store another name."""
        self.check_there()
        move(self.root / key, self.root / to)

    def _names(self, folder: str) -> set[str]:
        """Names of what lies in a folder of the store; none where there is no such folder."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return {name for name in os.listdir(self.root / folder) if not name.startswith(".")}
        return set()

    def sweep_folder(self, name: str) -> Path:
        """Where a sweep's table and report are written on this machine; `publish` hands them to others."""
        return self.root / "sweeps" / name

    def sweeps(self) -> list[str]:
        """Names of the sweeps that left something here, sorted."""
        return sorted(self._names("sweeps"))

    def publish(self, folder: Path, name: str) -> None:
        """Hand a sweep's report, written into `folder`, to readers of the store; all see a folder anyway."""

    def read_note(self, name: str, file: str) -> bytes | None:
        """A small file of a sweep (its state, what was proposed), or None."""
        return self.read(f"sweeps/{name}/{file}")

    def write_note(self, name: str, file: str, content: bytes) -> None:
        """Replace a small file of a sweep as a whole."""
        self.write(f"sweeps/{name}/{file}", content)

    def note_names(self, name: str, folder: str) -> list[str]:
        """Names of the small files in a folder of a sweep's notes, sorted; none where there is no such folder."""
        return sorted(self._names(f"sweeps/{name}/{folder}"))

    def set_note_aside(self, name: str, file: str) -> str:
        """Give a damaged note a new name, which it returns: beside it, and out of everybody's way."""
        place = aside_name(file)
        with suppress(OSError):  # a user who may not write here still goes on without it
            self.rename(f"sweeps/{name}/{file}", f"sweeps/{name}/{place}")
        return place

    # The store itself.

    @property
    def location(self) -> str:
        """What the user calls the store: its folder, or its URL."""
        return str(self.root)

    @property
    def shared_folders(self) -> SharedFolders | None:
        """How several machines share folders; None where they see the same file system."""
        return None

    def open_for_writing(self) -> None:
        """Create the store, prove that it can be written, note its version. InputError where that cannot be."""
        self.prove_writable()
        content = self.read(VERSION_FILE)
        if stated_version(content, self.location) is None:
            if content is not None:
                self.rename(VERSION_FILE, aside_name(VERSION_FILE))
            self.write(VERSION_FILE, json.dumps({"format": VERSION}).encode())
        object.__setattr__(self, "_opened", True)

    def refuse_newer(self) -> None:
        """Raise InputError for a store of a newer format; tell of a version file that is unreadable."""
        content = self.read(VERSION_FILE)
        if stated_version(content, self.location) is None and content is not None:
            report_damage(f"--store {self.location}: {VERSION_FILE} is unreadable; the next run writes it anew")

    def check_there(self) -> None:
        """Raise StoreGone if the store was opened for writing and has disappeared since. Quick."""
        if self._opened and not (self.root / VERSION_FILE).is_file():
            raise StoreGone(
                f"{self.root}: the store has disappeared (moved, deleted, unmounted?); the run ends, and nothing is "
                "made anew in its place; with the store back, the same command goes on from here"
            )

    def prove_writable(self) -> None:
        """Raise InputError if the store cannot be made or written."""
        probe = self.root / f".probe.{uuid.uuid4().hex}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_file(probe, b"x" * 4096)
        except OSError as error:
            places = (self.root, *self.root.parents)
            file = next((place for place in places if place.exists() and not place.is_dir()), None)
            got = f": {error.strerror}" if file is None else " a file" if file == self.root else f" the file {file}"
            raise InputError(f"--store {self.root}: expected a folder that can be written, got{got}") from None
        finally:
            with suppress(OSError):  # it was never made
                probe.unlink()

    def sweep_away_drafts(self) -> int:
        """Remove drafts and half-written files whose writer is gone, and what finished stages still keep for another
        attempt: their writer died between sealing the artifact and clearing up. Returns how many.
        """
        root, removed = self.root, 0
        works = chain.from_iterable(os.walk(work) for work in root.glob("*/*.work*"))
        folders = [root, *root.glob("*/"), *(Path(name) for name, *_ in (*os.walk(root / "sweeps"), *works))]
        for path in chain.from_iterable(map(half_written, folders)):
            path.unlink(missing_ok=True)
            removed += 1
        for draft in root.glob("*/.*.*.*.*"):
            fingerprint, _, writer = draft.name[1:].partition(".")
            if draft.is_dir() and FINGERPRINT.fullmatch(fingerprint) and is_gone(writer, draft):
                shutil.rmtree(draft, ignore_errors=True)
                removed += 1
        for work in root.glob("*/*.work"):
            done = FINGERPRINT.fullmatch(work.stem) and (work.with_suffix("") / MANIFEST).is_file()
            if done and work.is_dir() and not work.is_symlink():
                shutil.rmtree(work, ignore_errors=True)
                removed += 1
        return removed


def read_artifact(folder: Path) -> dict[str, Any]:
    """The manifest of the finished artifact in `folder`.

    Raises FileNotFoundError if there is no manifest, and Damage if it is wrong, or a file of the artifact is missing or
    has another size. Contents are another matter: `verify` reads them.
    """
    if folder.is_symlink():
        raise Damage("it is a link")
    try:
        content = plain_content(folder / MANIFEST)
    except NotPlainError:
        raise Damage("its manifest is no plain file") from None
    manifest = read_manifest(content, folder.parent.name, folder.name)
    sizes = sizes_of(folder, manifest["files"])
    for name, size in manifest.get("sizes", {}).items():
        if sizes.get(name) != size:
            raise Damage(f"{name} has {sizes.get(name)} bytes instead of {size}")
    return manifest


def _artifact(folder: Path) -> dict[str, Any]:
    """As `read_artifact`, which is asked again when the manifest looks otherwise."""
    status = os.stat(folder / MANIFEST)
    looks = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, os.lstat(folder).st_ino)
    if folder not in _whole or _whole[folder][0] != looks:
        _whole[folder] = looks, read_artifact(folder)
    return _whole[folder][1]


def _is_whole(folder: Path) -> bool:
    """Whether a finished artifact lies in `folder`. Says so once if it is damaged."""
    try:
        return bool(_artifact(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except Damage as damage:
        label = stage_label(folder.parent.name, folder.name)
        report_damage(f"{label}: {damage}; it does not count, and a run makes it again")
        return False


def seal_draft(stage: Stage, draft: Path, said: dict[str, Any]) -> dict[str, Any]:
    """The sealed manifest of what lies in a draft: what its maker says, with what every reader relies on."""
    inputs = {role: {"stage": source.name, "fingerprint": source.fingerprint} for role, source in stage.inputs.items()}
    unsaid = {"config": dict(stage.config), "inputs": inputs, "seconds": 0.0, "finished_at": 0.0, "code_version": ""}
    names = sorted(path.name for path in draft.iterdir())
    made = {"files": {name: checksum(draft / name) for name in names}, "sizes": sizes_of(draft, names)}
    return sealed({**unsaid, **said, "stage": stage.name, "fingerprint": stage.fingerprint, **made})


def manifest_text(manifest: dict[str, Any]) -> str:
    """A manifest as its file has it."""
    return json.dumps(manifest, indent=1, sort_keys=True)


def aside_name(name: str) -> str:
    """A new name for a damaged file: beside it, and out of everybody's way."""
    return f"{name}.damaged-{uuid.uuid4().hex[:8]}"


def report_damage(line: str) -> None:
    """Say something about the store on stderr, once per process."""
    if line not in _told:
        _told.add(line)
        screen.err(f"smoothsweep: {line}")


def _set_aside(folder: Path) -> Path | None:
    """Rename a damaged artifact into the store's folder for those; None if another process has done so meanwhile."""
    place = folder.parent.parent / DAMAGED / folder.parent.name / f"{folder.name}.{uuid.uuid4().hex[:8]}"
    with suppress(FileNotFoundError):
        move(folder, place)
        return place
    return None


def _check_other(stage: Stage, manifest: dict[str, Any], place: Path) -> None:
    """Raise Damage unless another store's artifact is what was asked for, and nobody else can change it."""
    check_identity(manifest, stage.task.version)
    root = place.parent.parent
    trusted = {0, os.getuid(), root.stat().st_uid}
    for path in (root, place.parent, place, *place.iterdir()):
        status = path.lstat()
        if status.st_uid not in trusted:
            raise Damage(f"{path.name} belongs to user {status.st_uid}, who is not the store's owner")
        keeps = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # others can only add to it
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not keeps:
            mode = f"{stat.S_IMODE(status.st_mode):o}"
            raise Damage(f"others may change {path.name} (mode {mode}; chmod -R go-w closes a store)")


def classes_of(stage: Stage, store: Store) -> list[int]:
    """The classes of a sharded stage. Reads one file of one input: the others need not come to this machine."""
    labelled = next((source for name in stage.task.labelled if (source := stage.inputs.get(name))), None)
    file = store.file(labelled, NAMES_FILE) if labelled else None
    return classes_of_stage(stage.config, len(json.loads(file.read_text())) if file else 0)
