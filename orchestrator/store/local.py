"""The artifact store on a file system that all nodes see: a directory per finished stage, found by fingerprint.

    <store>/<stage>/<fingerprint>/            what the stage made, and manifest.json (written last)
    <store>/<stage>/<fingerprint>.work/       what an unfinished stage keeps between attempts
    <store>/<stage>/.<fingerprint>.<writer>/               being written; renamed when complete
    <store>/damaged/<stage>/<fingerprint>.<random>/         was not what its manifest says
    <store>/store.json                        the format's version

A directory without a manifest does not exist. Everything is flushed to disk before the rename, so a machine that
loses power shows either the whole artifact or none. A manifest is checked whenever it is read, and a file when it is
handed out (store/verifying.py).
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import shutil
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged, InputError, StoreGone
from smoothsweep.core.files import NotPlainError, move, plain_content, rename_folder, write_file
from smoothsweep.core.writers import release_folder
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common import verifying
from smoothsweep.orchestrator.store.common.artifacts import (
    MANIFEST,
    complete,
    give_up,
    is_whole,
    read_artifact,
    set_aside,
    with_checksums,
)
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.sealing import Damage, sealed
from smoothsweep.orchestrator.store.common.version import VERSION_FILE, heal_version
from smoothsweep.tasks.context import SharedFolders, read_progress, write_progress


@dataclass(frozen=True, kw_only=True)
class LocalStore(Store):
    """The store at `root`, a folder."""

    _opened = False  # set, also on the copies that travel to workers, once there must be a version file

    @property
    def location(self) -> str:
        return str(self.root)

    @property
    def shared_folders(self) -> SharedFolders | None:
        return None

    def path(self, stage: Stage) -> Path:
        with self._giving_up_damaged(stage):
            verifying.verify(self.place(stage), self._read(stage)["files"])
        return self.place(stage)

    def file(self, stage: Stage, name: str) -> Path | None:
        with self._giving_up_damaged(stage), suppress(FileNotFoundError):
            files = self._read(stage)["files"]
            if name in files:
                verifying.verify(self.place(stage), {name: files[name]})
                return self.place(stage) / name
        return None

    def give_up(self, stage: Stage, why: str) -> ArtifactDamaged:
        return give_up(self.place(stage), Damage(why))

    def work(self, stage: Stage) -> Path:
        return self.root / stage.name / f"{stage.fingerprint}.work"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Generator[Path]:
        work = self.work(stage)
        if work.is_symlink():
            raise InputError(f"{work}: expected a folder, got a link, which leads out of the store; remove it")
        self.check_there()
        work.mkdir(parents=True, exist_ok=True)
        yield work

    def kept(self, stage: Stage, folder: str) -> set[str]:
        try:
            return set(os.listdir(self.work(stage) / folder))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        return [read_progress(self.work(stage)) for stage in stages]

    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        if self.work(stage).exists():
            write_progress(self.work(stage), fraction, text)

    def read_note(self, name: str, file: str) -> bytes | None:
        path = self.sweep_folder(name) / file
        try:
            return plain_content(path)
        except FileNotFoundError:
            return None
        except NotPlainError:
            return b""  # which no note is: it counts as damaged

    def write_note(self, name: str, file: str, content: bytes) -> None:
        self.check_there()
        write_file(self.sweep_folder(name) / file, content, parents=True)

    def note_names(self, name: str, folder: str) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(entry for entry in os.listdir(self.sweep_folder(name) / folder) if not entry.startswith("."))
        return []

    def move_note(self, name: str, file: str, place: str) -> None:
        self.check_there()
        move(self.sweep_folder(name) / file, self.sweep_folder(name) / place)

    def sweeps(self) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(entry.name for entry in os.scandir(self.root / "sweeps") if entry.is_dir())
        return []

    def publish(self, folder: Path, name: str) -> None:
        """Nothing to do: all see the folder."""

    def has(self, stage: Stage) -> bool:
        return is_whole(self.place(stage))

    def manifest(self, stage: Stage) -> dict[str, Any]:
        with self._giving_up_damaged(stage):
            return self._read(stage)

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        return self.root / kind / fingerprint / MANIFEST

    def look_again(self, stages: Iterable[Stage]) -> None:
        """Nothing to do: a folder is looked at anew every time."""

    def finished(self, name: str) -> set[str]:
        return {entry.name for entry in self._folders(name) if os.path.exists(os.path.join(entry.path, MANIFEST))}

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        folder = self.root / kind / fingerprint
        manifest = read_artifact(folder)
        for name, expected in manifest["files"].items():
            if verifying.checksum(folder / name) != expected:
                raise Damage(f"{name} differs from its checksum")
        return manifest

    def newest_manifests(self, name: str, at_most: int) -> list[Path]:
        manifests = []
        for entry in self._folders(name):
            path = os.path.join(entry.path, MANIFEST)
            try:
                manifests.append((os.stat(path).st_mtime, path))
            except OSError:
                continue  # not finished
        return [Path(path) for _, path in heapq.nlargest(at_most, manifests)]

    def prepare(self, stages: Iterable[Stage]) -> None:
        """Nothing to do: they are read where they are."""

    def discard(self, stage: Stage) -> None:
        shutil.rmtree(self.place(stage), ignore_errors=True)
        shutil.rmtree(self.work(stage), ignore_errors=True)

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft: checksums, manifest, flush, rename. If another writer was first, theirs stays."""
        self.check_there()
        manifest = sealed(with_checksums(draft, complete(stage, manifest)))
        release_folder(draft)
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

    def version_note(self) -> bytes | None:
        """What store.json holds; None where there is none."""
        path = self.root / VERSION_FILE
        return path.read_bytes() if path.is_file() else None

    def _read(self, stage: Stage) -> dict[str, Any]:
        """The manifest of an artifact that looks whole. Raises FileNotFoundError or Damage."""
        return read_artifact(self.place(stage))

    @contextmanager
    def _giving_up_damaged(self, stage: Stage) -> Generator[None]:
        """Damage met in the block sets the artifact aside and becomes ArtifactDamaged."""
        try:
            yield
        except Damage as damage:
            raise give_up(self.place(stage), damage) from None

    def open_for_writing(self) -> None:
        self.prove_writable()
        heal_version(self.root / VERSION_FILE)
        object.__setattr__(self, "_opened", True)

    def check_there(self) -> None:
        if self._opened and not (self.root / VERSION_FILE).is_file():
            raise StoreGone(
                f"{self.root}: the store has disappeared (moved, deleted, unmounted?); the run ends, and nothing is "
                "made anew in its place; with the store back, the same command goes on from here"
            )

    def _folders(self, name: str) -> Iterator[os.DirEntry[str]]:
        """Folders that may hold an artifact of this kind: no drafts, no work."""
        try:
            with os.scandir(self.root / name) as entries:
                yield from (entry for entry in entries if len(entry.name) == 64)
        except (FileNotFoundError, NotADirectoryError):
            return
