"""How the workers of one training, on machines without a common file system, share inputs, work and checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.writers import hold_folder, release_folder
from smoothsweep.orchestrator.store.remote.layout import attempt_name, work_key
from smoothsweep.orchestrator.store.remote.objects import make_filesystem
from smoothsweep.orchestrator.store.remote.synchroniser import pull, pushing

if TYPE_CHECKING:
    from smoothsweep.orchestrator.store.remote.store import RemoteStore


@dataclass(frozen=True, kw_only=True)
class JoinedFolders:
    """tasks.context.SharedFolders for a remote store. Paths are of any machine's mirror: <root>/<stage>/<name>."""

    store: RemoteStore

    def bring(self, artifact: Path) -> Path:
        return self.store.bring(artifact.parent.name, artifact.name)

    @contextmanager
    def joined(self, work: Path) -> Generator[Path]:
        folder = self.store.root / work.parent.name / f"{_fingerprint(work)}.work.{attempt_name()}"
        folder.mkdir(parents=True)
        hold_folder(folder)
        try:
            with pushing(self.store.objects, _key(work), folder):
                yield folder
        finally:
            release_folder(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def pull(self, work: Path) -> None:
        pull(self.store.objects, _key(work), work)

    def checkpoints(self, work: Path) -> tuple[Any, str]:
        return make_filesystem(), self.store.objects.place(_key(work))


def _fingerprint(work: Path) -> str:
    return work.name.split(".", 1)[0]


def _key(work: Path) -> str:
    return work_key(work.parent.name, _fingerprint(work))
