"""Unfinished work of a stage, between a folder of one attempt and the store, where other machines go on with it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.files import replacing
from smoothsweep.core.writers import hold_folder, release_folder
from smoothsweep.orchestrator.store.remote.layout import attempt_name, work_key
from smoothsweep.orchestrator.store.remote.objects import Objects, ObjectStoreError, all_at_once, make_filesystem

if TYPE_CHECKING:
    from smoothsweep.orchestrator.store.remote.store import RemoteStore

PUSH_EVERY_S = 5.0  # what a lost machine may cost beyond the last checkpoint
RAY_TRAIN = "ray_train/"  # Ray Train keeps its checkpoints in the store itself

Seen = tuple[int, int, int]  # of a file: time of change, size, inode


def pull(objects: Objects, prefix: str, folder: Path, only: Collection[str] | None = None) -> None:
    """Bring the files of earlier attempts that `folder` lacks. only: these names, None for all but Ray Train's own."""
    names = [listed.key for listed in objects.listed(prefix) if not listed.key.startswith(RAY_TRAIN)]

    def bring(name: str) -> None:
        path = folder / name
        if path.exists():
            return
        with suppress(FileNotFoundError), replacing(path, parents=True) as temporary:
            objects.download(f"{prefix}/{name}", temporary)  # not found: the stage was finished meanwhile

    all_at_once(bring, [name for name in names if only is None or name in only])


@contextmanager
def pushing(objects: Objects, prefix: str, folder: Path) -> Generator[None]:
    """While the block runs, bring what changes in `folder` to `prefix` every few seconds, and once more at its end.

    What lies there now is taken as known. Names that start with a dot are half-written and stay here. A push that
    fails is tried again with the next; the last one's ObjectStoreError passes through.
    """
    pusher = _Pusher(objects, prefix, folder)
    pusher.start()
    try:
        yield
    except BaseException:
        pusher.stop()
        with suppress(ObjectStoreError):  # the block's own error is the one to tell
            pusher.push()
        raise
    pusher.stop()
    pusher.push()


class _Pusher(threading.Thread):
    def __init__(self, objects: Objects, prefix: str, folder: Path) -> None:
        super().__init__(name="push-work", daemon=True)
        self._objects, self._prefix, self._folder = objects, prefix, folder
        self._over = threading.Event()
        self._known: dict[str, Seen] = dict(_files(folder))

    def run(self) -> None:
        while not self._over.wait(PUSH_EVERY_S):
            try:
                self.push()
            except ObjectStoreError:
                continue  # the next push tries again, and the last one tells

    def stop(self) -> None:
        self._over.set()
        self.join()

    def push(self) -> None:
        """Upload every file that changed since its last upload."""
        for name, seen in list(_files(self._folder)):
            if self._known.get(name) == seen:
                continue
            try:
                self._objects.upload(f"{self._prefix}/{name}", self._folder / name)
            except FileNotFoundError:
                continue  # replaced or removed meanwhile
            self._known[name] = seen


def _files(folder: Path) -> Iterator[tuple[str, Seen]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), (status.st_mtime_ns, status.st_size, status.st_ino)


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
