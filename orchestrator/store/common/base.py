"""The artifact store as everybody sees it: finished stages by fingerprint, unfinished work, small notes of a sweep.

`orchestrator/store/local.py` keeps it on a file system that all nodes see, `orchestrator/store/remote/` on S3. Tasks
read and write folders of their own machine in either case, below `root`.
"""

from __future__ import annotations

import errno
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.files import plain_content, write_file
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.drafts import new_draft, sweep_away_drafts
from smoothsweep.orchestrator.store.common.sealing import Damage, read_manifest
from smoothsweep.tasks.context import SharedFolders


@dataclass(frozen=True, kw_only=True)
class Store(ABC):
    """All paths of the store in one place: no other code joins file names. root: what of it lies on this machine."""

    root: Path

    # What is finished.

    @abstractmethod
    def has(self, stage: Stage) -> bool:
        """Whether the stage is finished: a manifest that is as it was written, and all its files. A damaged artifact
        is told of and does not count; their contents are verified when they are read."""

    @abstractmethod
    def path(self, stage: Stage) -> Path:
        """The folder of a finished artifact on this machine, with all its files, each of them verified.

        Raises ArtifactDamaged, the artifact set aside, where it is not what it was, and FileNotFoundError where there
        is none.
        """

    @abstractmethod
    def file(self, stage: Stage, name: str) -> Path | None:
        """One file of a finished stage on this machine, verified; None where artifact or file are not there.

        Raises ArtifactDamaged as `path`.
        """

    def needed_file(self, stage: Stage, name: str) -> Path:
        """As `file` of a stage whose kind always has it.

        Raises FileNotFoundError where the stage is not finished, and ArtifactDamaged also where it names no such file.
        """
        path = self.file(stage, name)
        if path is None and not self.has(stage):
            why = f"{stage.label} is gone; a run makes it again"
            raise FileNotFoundError(errno.ENOENT, why, str(self.place(stage)))
        if path is None:
            raise self.give_up(stage, f"its manifest names no {name}")
        return path

    @abstractmethod
    def give_up(self, stage: Stage, why: str) -> ArtifactDamaged:
        """Set an artifact aside that is not what its kind is; the error that says so."""

    @abstractmethod
    def manifest(self, stage: Stage) -> dict[str, Any]:
        """The manifest of a finished stage. Raises FileNotFoundError when it is not finished; else as `path`."""

    @abstractmethod
    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        """Where the manifest of a stage of this kind lies on this machine."""

    def manifest_of(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest that lies there. Raises OSError where none does, and Damage."""
        return read_manifest(plain_content(self.manifest_file(kind, fingerprint)), kind, fingerprint)

    @abstractmethod
    def newest_manifests(self, name: str, at_most: int) -> list[Path]:
        """Files of the newest manifests of finished stages of this kind."""

    def newest(self, kind: str, at_most: int) -> Iterator[dict[str, Any]]:
        """What they say; one that was deleted meanwhile, or is damaged, is left out: who reads its artifact says so."""
        for path in self.newest_manifests(kind, at_most):
            with suppress(OSError, Damage):
                yield read_manifest(plain_content(path), kind, path.parent.name)

    @abstractmethod
    def finished(self, name: str) -> set[str]:
        """Fingerprints of all finished stages of this kind."""

    @abstractmethod
    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest of an artifact, all of which was read now. Raises FileNotFoundError or Damage."""

    @abstractmethod
    def prepare(self, stages: Iterable[Stage]) -> None:
        """Make the manifests of these stages and their ancestors quick to read."""

    @abstractmethod
    def look_again(self, stages: Iterable[Stage]) -> None:
        """Forget which of these stages this process has seen finished: another one set an artifact aside."""

    def metrics(self, stage: Stage) -> dict[str, float | None]:
        """The numbers in the manifest of a finished stage."""
        return self.manifest(stage)["metrics"]

    def place(self, stage: Stage) -> Path:
        """Where the artifact lies or would lie on this machine. Brings nothing here."""
        return self.root / stage.name / stage.fingerprint

    # What is being made.

    @abstractmethod
    def work(self, stage: Stage) -> Path:
        """The folder on this machine that `working` opens."""

    @abstractmethod
    def working(self, stage: Stage, only: Collection[str] | None = None) -> AbstractContextManager[Path]:
        """The folder in which an unfinished stage keeps what outlives an attempt, with what earlier attempts left.

        only: names (posix, relative) of the files the attempt needs of it, None for all.
        """

    @abstractmethod
    def kept(self, stage: Stage, folder: str) -> set[str]:
        """Names of the files that attempts at an unfinished stage left in this folder of their work."""

    @abstractmethod
    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        """How far unfinished stages are: the mark each left last, or None."""

    @abstractmethod
    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        """Leave a mark for an unfinished stage that has been worked on."""

    def draft(self, stage: Stage) -> Path:
        """A fresh directory to write the artifact into; `commit` makes an artifact of it."""
        self.check_there()
        return new_draft(self.place(stage))

    @abstractmethod
    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Seal the draft as the stage's artifact. If another writer was first, theirs stays."""

    @abstractmethod
    def discard(self, stage: Stage) -> None:
        """Remove what there is of a stage, finished or not."""

    # What belongs to a sweep.

    def sweep_folder(self, name: str) -> Path:
        """Where a sweep's table and report are written on this machine; `publish` hands them to others."""
        return self.root / "sweeps" / name

    @abstractmethod
    def sweeps(self) -> list[str]:
        """Names of the sweeps that left something here, sorted."""

    @abstractmethod
    def publish(self, folder: Path, name: str) -> None:
        """Hand a sweep's report, written into `folder`, to readers of the store."""

    @abstractmethod
    def read_note(self, name: str, file: str) -> bytes | None:
        """A small file of a sweep (its state, what was proposed), or None."""

    @abstractmethod
    def write_note(self, name: str, file: str, content: bytes) -> None:
        """Replace a small file of a sweep as a whole."""

    @abstractmethod
    def note_names(self, name: str, folder: str) -> list[str]:
        """Names of the small files in a folder of a sweep's notes, sorted; none where there is no such folder."""

    @abstractmethod
    def move_note(self, name: str, file: str, place: str) -> None:
        """Give a small file of a sweep another name."""

    # The store itself.

    @property
    @abstractmethod
    def location(self) -> str:
        """What the user calls the store: its folder, or its URL."""

    @property
    @abstractmethod
    def shared_folders(self) -> SharedFolders | None:
        """How several machines share folders; None where they see the same file system."""

    @abstractmethod
    def open_for_writing(self) -> None:
        """Create the store, prove that it can be written, note its version. InputError where that cannot be."""

    @abstractmethod
    def check_there(self) -> None:
        """Raise StoreGone if the store was opened for writing and has disappeared since. Quick."""

    def prove_writable(self) -> None:
        """Raise InputError if the store cannot be made or written."""
        probe = self.root / f".probe.{uuid.uuid4().hex}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_file(probe, b"x" * 4096)
        except OSError as error:
            file = next(
                (folder for folder in (self.root, *self.root.parents) if folder.exists() and not folder.is_dir()), None
            )
            got = f": {error.strerror}" if file is None else " a file" if file == self.root else f" the file {file}"
            raise InputError(f"--store {self.root}: expected a folder that can be written, got{got}") from None
        finally:
            with suppress(OSError):  # it was never made, or the renamed file is already in place
                probe.unlink()

    def sweep_away_drafts(self) -> int:
        """Remove drafts whose writer on this host is dead. Returns how many."""
        return sweep_away_drafts(self.root)
