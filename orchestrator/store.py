"""The artifact store: one directory per finished stage, found by fingerprint.

    <store>/<stage>/<fingerprint>/            what the stage made, and manifest.json (written last)
    <store>/<stage>/<fingerprint>.work/       what an unfinished stage keeps between attempts
    <store>/<stage>/.<fingerprint>.<host>.<pid>.<random>/   being written; renamed when complete

A directory without a manifest does not exist. Everything is flushed to disk before the rename, so a machine that
loses power shows either the whole artifact or none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from core.errors import InputError
from orchestrator.stage import Stage

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Store:
    """All paths of the store in one place: nobody else joins file names."""

    root: Path

    def path(self, stage: Stage) -> Path:
        return self.root / stage.name / stage.fingerprint

    def work(self, stage: Stage) -> Path:
        return self.root / stage.name / f"{stage.fingerprint}.work"

    def sweep_folder(self, name: str) -> Path:
        """Where a sweep's table, report and state lie."""
        return self.root / "sweeps" / name

    def has(self, stage: Stage) -> bool:
        return (self.path(stage) / MANIFEST).is_file()

    def manifest(self, stage: Stage) -> dict[str, Any]:
        """The manifest of a finished stage. Raises FileNotFoundError when it is not finished."""
        return json.loads((self.path(stage) / MANIFEST).read_text())

    def metrics(self, stage: Stage) -> dict[str, float | None]:
        return self.manifest(stage)["metrics"]

    def draft(self, stage: Stage) -> Path:
        """A fresh directory to write the artifact into; `commit` renames it."""
        owner = f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
        draft = self.root / stage.name / f".{stage.fingerprint}.{owner}"
        draft.mkdir(parents=True)
        return draft

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft: checksums, manifest, flush, rename. If somebody else was first, theirs stays."""
        manifest = {**manifest, "files": {p.name: _checksum(p) for p in sorted(draft.iterdir())}}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        for path in [*draft.iterdir(), draft]:
            _flush(path)
        final = self.path(stage)
        try:
            os.replace(draft, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if not self.has(stage):  # a foreign directory without a manifest is in the way: it does not exist
                shutil.rmtree(final)
                os.replace(draft, final)
            else:
                shutil.rmtree(draft)
        _flush(final.parent)
        shutil.rmtree(self.work(stage), ignore_errors=True)
        return final

    def damaged_files(self, stage: Stage) -> list[str]:
        """Names of the artifact's files that are missing or differ from their checksum."""
        folder, files = self.path(stage), self.manifest(stage)["files"]
        intact = {name for name in files if (folder / name).is_file() and _checksum(folder / name) == files[name]}
        return sorted(set(files) - intact)

    def open_for_writing(self) -> None:
        """Create the store and prove that it can be written; InputError otherwise."""
        probe = self.root / f".probe.{uuid.uuid4().hex}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"x" * 4096)
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

    def _drafts(self) -> Iterator[Path]:
        for folder in self.root.glob("*/.*.*.*.*"):
            if folder.is_dir() and len(folder.name.split(".")[1]) == 64 and folder.name.rsplit(".", 2)[1].isdigit():
                yield folder


def open_store(location: str) -> Store:
    """A store at an absolute path. URLs other than file:// are refused: nodes must see it as a file system."""
    if "://" in location and not location.startswith("file://"):
        raise InputError(f"--store: expected a directory on a file system that every node sees, got {location}")
    return Store(root=Path(location.removeprefix("file://")).expanduser().resolve())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, flush it, rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        temporary.write_bytes(content)
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        _unlink_quietly(temporary)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink_quietly(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return  # it was never made, or the renamed file is already in place
