"""The artifact store: one directory per finished stage, found by fingerprint.

    <store>/<stage>/<fingerprint>/            what the stage made, and manifest.json (written last)
    <store>/<stage>/<fingerprint>.work/       what an unfinished stage keeps between attempts
    <store>/<stage>/.<fingerprint>.<host>.<pid>.<random>/   being written; renamed when complete
    <store>/store.json                        the format's version; none means version 1

A directory without a manifest does not exist. Everything is flushed to disk before the rename, so a machine that
loses power shows either the whole artifact or none. `Store` is the one on a file system that all nodes see;
orchestrator/storing/remote.py does the same on S3.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import json
import os
import shutil
import socket
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from core.errors import InputError
from core.files import rename_folder, write_file
from orchestrator.stage import Stage
from orchestrator.storing.version import VERSION_FILE, refuse_other_versions, version_note
from tasks.context import SharedFolders, read_progress, write_progress

MANIFEST = "manifest.json"


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

    def path(self, stage: Stage) -> Path:
        """The artifact's folder on this machine, with all its files if the stage is finished."""
        return self.place(stage)

    def place(self, stage: Stage) -> Path:
        """Where the artifact lies or would lie on this machine. Brings nothing here."""
        return self.root / stage.name / stage.fingerprint

    def file(self, stage: Stage, name: str) -> Path | None:
        """One file of a finished stage on this machine; None if the artifact has no such file, or is not there."""
        path = self.place(stage) / name
        return path if path.is_file() else None

    def work(self, stage: Stage) -> Path:
        return self.root / stage.name / f"{stage.fingerprint}.work"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Iterator[Path]:
        """The folder in which an unfinished stage keeps what outlives an attempt, with what earlier attempts left.

        only: names (posix, relative) of the files the attempt needs of it, None for all.
        """
        work = self.work(stage)
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

    def publish(self, folder: Path, name: str) -> None:
        """Hand a sweep's report, written into `folder`, to whoever reads the store."""

    def has(self, stage: Stage) -> bool:
        return (self.place(stage) / MANIFEST).is_file()

    def manifest(self, stage: Stage) -> dict[str, Any]:
        """The manifest of a finished stage. Raises FileNotFoundError when it is not finished."""
        return json.loads(self.manifest_file(stage.name, stage.fingerprint).read_text())

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        """Where the manifest of a stage of this kind lies on this machine."""
        return self.root / kind / fingerprint / MANIFEST

    def metrics(self, stage: Stage) -> dict[str, float | None]:
        return self.manifest(stage)["metrics"]

    def finished(self, name: str) -> set[str]:
        """Fingerprints of all finished stages of this kind."""
        return {entry.name for entry in self._folders(name) if os.path.exists(os.path.join(entry.path, MANIFEST))}

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
        owner = f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
        draft = self.root / stage.name / f".{stage.fingerprint}.{owner}"
        draft.mkdir(parents=True)
        return draft

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft: checksums, manifest, flush, rename. If somebody else was first, theirs stays."""
        manifest = {**manifest, "files": {p.name: checksum(p) for p in sorted(draft.iterdir())}}
        write_file(draft / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        final = self.place(stage)
        try:
            rename_folder(draft, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if not self.has(stage):  # a foreign directory without a manifest is in the way: it does not exist
                shutil.rmtree(final)
                rename_folder(draft, final)
            else:
                shutil.rmtree(draft)
        shutil.rmtree(self.work(stage), ignore_errors=True)
        return final

    def damaged_files(self, stage: Stage) -> list[str]:
        """Names of the artifact's files that are missing or differ from their checksum."""
        folder, files = self.path(stage), self.manifest(stage)["files"]
        intact = {name for name in files if (folder / name).is_file() and checksum(folder / name) == files[name]}
        return sorted(set(files) - intact)

    def open_for_writing(self) -> None:
        """Create the store, prove that it can be written, note its version. InputError where that cannot be."""
        self.prove_writable()
        if not (self.root / VERSION_FILE).exists():
            write_file(self.root / VERSION_FILE, version_note())

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
        removed = 0
        for draft in self._drafts():
            host, pid, _ = draft.name[1:].split(".", 1)[1].rsplit(".", 2)
            if host == socket.gethostname() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(draft, ignore_errors=True)
                removed += 1
        return removed

    def _folders(self, name: str) -> Iterator[os.DirEntry[str]]:
        """Folders that may hold an artifact of this kind: no drafts, no work."""
        try:
            with os.scandir(self.root / name) as entries:
                yield from (entry for entry in entries if len(entry.name) == 64)
        except (FileNotFoundError, NotADirectoryError):
            return

    def _drafts(self) -> Iterator[Path]:
        for folder in self.root.glob("*/.*.*.*.*"):
            if folder.is_dir() and len(folder.name.split(".")[1]) == 64 and folder.name.rsplit(".", 2)[1].isdigit():
                yield folder


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
            f"got {location}"
        )
    store = Store(root=Path(location.removeprefix("file://")).expanduser().resolve())
    version = store.root / VERSION_FILE
    refuse_other_versions(version.read_bytes() if version.is_file() else None, store.location)
    return store


def checksum(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unlink_quietly(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return  # it was never made, or the renamed file is already in place
