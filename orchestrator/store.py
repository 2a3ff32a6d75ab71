"""The artifact store: one directory per finished stage, found by fingerprint.

    <store>/<stage>/<fingerprint>/            what the stage made, and manifest.json (written last)
    <store>/<stage>/<fingerprint>.work/       what an unfinished stage keeps between attempts
    <store>/<stage>/.<fingerprint>.<host>.<pid>.<random>/   being written; renamed when complete
    <store>/damaged/<stage>/<fingerprint>.<random>/         was not what its manifest says
    <store>/store.json                        the format's version; none means version 1

A directory without a manifest does not exist. Everything is flushed to disk before the rename, so a machine that
loses power shows either the whole artifact or none. A manifest is checked whenever it is read, and a file when it is
handed out (storing/verifying.py). `Store` is the one on a file system that all nodes see;
orchestrator/storing/remote.py does the same on S3.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import move, rename_folder, write_file
from core.uris import shown_uri
from orchestrator.stage import Stage
from orchestrator.storing import verifying
from orchestrator.storing.artifacts import MANIFEST, give_up, is_whole, read_artifact, set_aside, with_checksums
from orchestrator.storing.drafts import new_draft, sweep_away_drafts
from orchestrator.storing.sealing import Damage, sealed
from orchestrator.storing.version import SEALED_FROM, VERSION_FILE, heal_version, refuse_other_versions, version_of
from tasks.context import SharedFolders, read_progress, write_progress


@dataclass(frozen=True, kw_only=True)
class Store:
    """All paths of the store in one place: nobody else joins file names."""

    root: Path

    @property
    def location(self) -> str:
        """What the user calls the store: its folder, or its URL."""
        return str(self.root)

    @property
    def shared_folders(self) -> SharedFolders | None:
        """How several machines share folders; None where they see the same file system."""
        return None

    @cached_property
    def unsealed(self) -> bool:
        """Whether manifests without a seal will do: the store is older than seals."""
        return version_of(self._version_note()) < SEALED_FROM

    def path(self, stage: Stage) -> Path:
        """The folder of a finished artifact on this machine, with all its files, each of them verified.

        Raises ArtifactDamaged, the artifact set aside, where it is not what it was, and FileNotFoundError where there
        is none.
        """
        with self._giving_up_damaged(stage):
            verifying.verify(self.place(stage), self._read(stage)["files"])
        return self.place(stage)

    def place(self, stage: Stage) -> Path:
        """Where the artifact lies or would lie on this machine. Brings nothing here."""
        return self.root / stage.name / stage.fingerprint

    def file(self, stage: Stage, name: str) -> Path | None:
        """One file of a finished stage on this machine, verified; None where artifact or file are not there.

        Raises ArtifactDamaged as `path`.
        """
        with self._giving_up_damaged(stage), suppress(FileNotFoundError):
            files = self._read(stage)["files"]
            if name in files:
                verifying.verify(self.place(stage), {name: files[name]})
                return self.place(stage) / name
        return None

    def work(self, stage: Stage) -> Path:
        return self.root / stage.name / f"{stage.fingerprint}.work"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Iterator[Path]:
        """The folder in which an unfinished stage keeps what outlives an attempt, with what earlier attempts left.

        only: names (posix, relative) of the files the attempt needs of it, None for all.
        """
        work = self.work(stage)
        if work.is_symlink():
            raise InputError(f"{work}: expected a folder, got a link, which leads out of the store; remove it")
        work.mkdir(parents=True, exist_ok=True)
        yield work

    def kept(self, stage: Stage, folder: str) -> set[str]:
        """Names of the files that attempts at an unfinished stage left in this folder of their work."""
        try:
            return set(os.listdir(self.work(stage) / folder))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        """How far unfinished stages are: the mark each left last, or None."""
        return [read_progress(self.work(stage)) for stage in stages]

    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        """Leave a mark for an unfinished stage that has been worked on."""
        if self.work(stage).exists():
            write_progress(self.work(stage), fraction, text)

    def sweep_folder(self, name: str) -> Path:
        """Where a sweep's table and report are written on this machine; `publish` hands them to others."""
        return self.root / "sweeps" / name

    def read_note(self, name: str, file: str) -> bytes | None:
        """A small file of a sweep (its state, what was proposed), or None."""
        try:
            return (self.sweep_folder(name) / file).read_bytes()
        except FileNotFoundError:
            return None

    def write_note(self, name: str, file: str, content: bytes) -> None:
        """Replace a small file of a sweep as a whole."""
        write_file(self.sweep_folder(name) / file, content, parents=True)

    def move_note(self, name: str, file: str, place: str) -> None:
        """Give a small file of a sweep another name."""
        move(self.sweep_folder(name) / file, self.sweep_folder(name) / place)

    def publish(self, folder: Path, name: str) -> None:
        """Hand a sweep's report, written into `folder`, to whoever reads the store."""

    def has(self, stage: Stage) -> bool:
        """Whether the stage is finished: a manifest that is as it was written, and all its files. A damaged artifact
        is told of and does not count; their contents are verified when they are read."""
        return is_whole(self.place(stage), unsealed=self.unsealed)

    def manifest(self, stage: Stage) -> dict[str, Any]:
        """The manifest of a finished stage. Raises FileNotFoundError when it is not finished; else as `path`."""
        with self._giving_up_damaged(stage):
            return self._read(stage)

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        """Where the manifest of a stage of this kind lies on this machine."""
        return self.root / kind / fingerprint / MANIFEST

    def look_again(self, stages: Iterable[Stage]) -> None:
        """Forget which of these stages this process has seen finished: another one set an artifact aside."""

    def metrics(self, stage: Stage) -> dict[str, float | None]:
        return self.manifest(stage)["metrics"]

    def finished(self, name: str) -> set[str]:
        """Fingerprints of all finished stages of this kind."""
        return {entry.name for entry in self._folders(name) if os.path.exists(os.path.join(entry.path, MANIFEST))}

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest of an artifact, all of which was read now. Raises FileNotFoundError or Damage."""
        folder = self.root / kind / fingerprint
        manifest = read_artifact(folder, unsealed=self.unsealed)
        for name, expected in manifest["files"].items():
            if verifying.checksum(folder / name) != expected:
                raise Damage(f"{name} differs from its checksum")
        return manifest

    def newest_manifests(self, name: str, at_most: int) -> list[Path]:
        """Files of the newest manifests of finished stages of this kind."""
        found = []
        for entry in self._folders(name):
            path = os.path.join(entry.path, MANIFEST)
            try:
                found.append((os.stat(path).st_mtime, path))
            except OSError:
                continue  # not finished
        return [Path(path) for _, path in heapq.nlargest(at_most, found)]

    def prepare(self, stages: Iterable[Stage]) -> None:
        """Make the manifests of these stages and their ancestors quick to read. Nothing to do on a file system."""

    def discard(self, stage: Stage) -> None:
        """Remove what there is of a stage, finished or not."""
        shutil.rmtree(self.place(stage), ignore_errors=True)
        shutil.rmtree(self.work(stage), ignore_errors=True)

    def draft(self, stage: Stage) -> Path:
        """A fresh directory to write the artifact into; `commit` renames it."""
        return new_draft(self.place(stage))

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft: checksums, manifest, flush, rename. If somebody else was first, theirs stays."""
        manifest = sealed(with_checksums(draft, {**manifest, "stage": stage.name, "fingerprint": stage.fingerprint}))
        write_file(draft / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        final = self.place(stage)
        try:
            rename_folder(draft, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not self.has(stage):  # what is in the way is damaged, or has no manifest and does not exist
                set_aside(final)
                rename_folder(draft, final)
        if draft.exists():
            shutil.rmtree(draft)
        else:
            verifying.note_as_right(final, manifest["files"])
        shutil.rmtree(self.work(stage), ignore_errors=True)
        return final

    def _version_note(self) -> bytes | None:
        path = self.root / VERSION_FILE
        return path.read_bytes() if path.is_file() else None

    def _read(self, stage: Stage) -> dict[str, Any]:
        """The manifest of an artifact that looks whole. Raises FileNotFoundError or Damage."""
        return read_artifact(self.place(stage), unsealed=self.unsealed)

    @contextmanager
    def _giving_up_damaged(self, stage: Stage) -> Iterator[None]:
        """Damage met in the block sets the artifact aside and becomes ArtifactDamaged."""
        try:
            yield
        except Damage as damage:
            raise give_up(self.place(stage), damage) from None

    def open_for_writing(self) -> None:
        """Create the store, prove that it can be written, note its version. InputError where that cannot be."""
        self.prove_writable()
        heal_version(self.root / VERSION_FILE, empty=next(self.root.glob(f"*/*/{MANIFEST}"), None) is None)

    def prove_writable(self) -> None:
        """Raise InputError if the store cannot be made or written."""
        probe = self.root / f".probe.{uuid.uuid4().hex}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_file(probe, b"x" * 4096)
        except OSError as error:
            raise InputError(f"--store {self.root}: expected a writable directory, got: {error.strerror}") from None
        finally:
            _unlink_quietly(probe)

    def sweep_away_drafts(self) -> int:
        """Remove drafts whose writer on this host is dead. Returns how many."""
        return sweep_away_drafts(self.root)

    def _folders(self, name: str) -> Iterator[os.DirEntry[str]]:
        """Folders that may hold an artifact of this kind: no drafts, no work."""
        try:
            with os.scandir(self.root / name) as entries:
                yield from (entry for entry in entries if len(entry.name) == 64)
        except (FileNotFoundError, NotADirectoryError):
            return


def open_store(location: str) -> Store:
    """A store at a path, a file:// URL or s3://bucket/prefix.

    Raises InputError for another kind of URL, a store of a newer format, and a bucket that cannot be read.
    """
    if location.startswith("s3://"):
        from orchestrator.storing.remote import open_remote_store  # brings pyarrow, which a local store does not need

        return open_remote_store(location)
    if "://" in location and not location.startswith("file://"):
        raise InputError(
            "--store: expected a directory on a file system that every node sees, or s3://bucket/prefix, "
            f"got {shown_uri(location)}"
        )
    store = Store(root=Path(location.removeprefix("file://")).expanduser().resolve())
    refuse_other_versions(store._version_note(), store.location)
    return store


def _unlink_quietly(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return  # it was never made, or the renamed file is already in place
