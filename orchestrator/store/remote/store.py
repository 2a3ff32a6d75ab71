"""The artifact store on S3: an artifact exists when its manifest object does, and that one is written last.

store/remote/layout.py says what lies where. Two writers of one stage never write the same object but the manifest;
whichever is there in the end names files that are all there. Tasks read local paths: artifacts come into a mirror on
each machine (store/remote/mirror.py), verified.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.uris import shown_uri
from smoothsweep.core.writers import hold_folder, is_gone, release_folder
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST, aside_name, complete, with_checksums
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.sealing import Damage, sealed
from smoothsweep.orchestrator.store.common.version import (
    VERSION_FILE,
    is_unreadable,
    refuse_other_versions,
    version_note,
)
from smoothsweep.orchestrator.store.remote.layout import (
    attempt_name,
    draft_key,
    files_key,
    manifest_key,
    sweep_attempts,
    sweep_drafts,
    work_key,
)
from smoothsweep.orchestrator.store.remote.mirror import Manifests, Mirror, mirror_of
from smoothsweep.orchestrator.store.remote.objects import Objects, ObjectStoreError, all_at_once
from smoothsweep.orchestrator.store.remote.synchroniser import JoinedFolders, pull, pushing
from smoothsweep.tasks.context import PROGRESS_FILE, mark_content, mark_from

MARKS_EVERY_S = 5.0  # progress marks are asked for as often as they are pushed
URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/\s]+)*")
UNPUBLISHED = "tune"  # Ray Tune's own notes in a sweep's folder


@dataclass(frozen=True, kw_only=True)
class RemoteStore(Store):
    """The store at `objects.url`; `root` is its mirror on this machine. Travels to workers as its URL alone."""

    objects: Objects
    manifests: Manifests
    _marks: dict[str, tuple[float, dict[str, Any] | None]] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return remote_store, (self.objects.url,)

    @property
    def location(self) -> str:
        return self.objects.url

    @property
    def shared_folders(self) -> JoinedFolders:
        return JoinedFolders(store=self)

    @cached_property
    def mirror(self) -> Mirror:
        return Mirror(root=self.root, objects=self.objects, manifests=self.manifests)

    def path(self, stage: Stage) -> Path:
        return self.bring(stage.name, stage.fingerprint)

    def file(self, stage: Stage, name: str) -> Path | None:
        if not self.has(stage) or name not in self.manifest(stage)["files"]:
            return None
        return self.bring(stage.name, stage.fingerprint, [name]) / name

    def give_up(self, stage: Stage, why: str) -> ArtifactDamaged:
        return self.mirror.give_up(stage.name, stage.fingerprint, Damage(why))

    def work(self, stage: Stage) -> Path:
        """A folder of this attempt alone: attempts meet in the store, not in a mirror."""
        return self.root / stage.name / f"{stage.fingerprint}.work.{attempt_name()}"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Generator[Path]:
        self._sweep_mirror(stage.name, stage.fingerprint)  # of attempts killed on a machine that has no driver
        work = self.work(stage)
        work.mkdir(parents=True)
        hold_folder(work)
        try:
            pull(self.objects, work_key(stage.name, stage.fingerprint), work, only)
            with pushing(self.objects, work_key(stage.name, stage.fingerprint), work):
                yield work
        finally:
            release_folder(work)
            shutil.rmtree(work, ignore_errors=True)

    def kept(self, stage: Stage, folder: str) -> set[str]:
        return {listed.key for listed in self.objects.listed(f"{work_key(stage.name, stage.fingerprint)}/{folder}")}

    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        """A mark is asked for every MARKS_EVERY_S at most; one that cannot be had is None."""
        stages = list(stages)
        old = [s for s in stages if time.monotonic() - self._marks.get(s.fingerprint, (-1e9, None))[0] > MARKS_EVERY_S]
        for stage, mark in zip(old, all_at_once(self._mark, old), strict=True):
            self._marks[stage.fingerprint] = (time.monotonic(), mark)
        return [self._marks[stage.fingerprint][1] for stage in stages]

    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        with suppress(OSError):  # a mark is a courtesy
            self.objects.write(_mark_key(stage), mark_content(fraction, text).encode())

    def read_note(self, name: str, file: str) -> bytes | None:
        return self._read_if_any(f"sweeps/{name}/{file}")

    def write_note(self, name: str, file: str, content: bytes) -> None:
        self.objects.write(f"sweeps/{name}/{file}", content)

    def note_names(self, name: str, folder: str) -> list[str]:
        return sorted(listed.key for listed in self.objects.listed(f"sweeps/{name}/{folder}"))

    def move_note(self, name: str, file: str, place: str) -> None:
        self.objects.write(f"sweeps/{name}/{place}", self.objects.read(f"sweeps/{name}/{file}"))
        self.objects.delete([f"sweeps/{name}/{file}"])

    def sweeps(self) -> list[str]:
        return sorted({listed.key.split("/")[0] for listed in self.objects.listed("sweeps")})

    def publish(self, folder: Path, name: str) -> None:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        names = {path: path.relative_to(folder) for path in files}
        published = [p for p in files if names[p].parts[0] != UNPUBLISHED and not names[p].name.startswith(".")]
        all_at_once(lambda path: self.objects.upload(f"sweeps/{name}/{names[path].as_posix()}", path), published)

    def has(self, stage: Stage) -> bool:
        return self.manifests.has(stage.name, stage.fingerprint)

    def look_again(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            self.manifests.forget(stage.name, stage.fingerprint)

    def manifest(self, stage: Stage) -> dict[str, Any]:
        return self.mirror.manifest(stage.name, stage.fingerprint)

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        return self.manifests.copy(kind, fingerprint)

    def finished(self, name: str) -> set[str]:
        return {listed.key.split("/")[0] for listed in self.manifests.listed(name)}

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        return self.mirror.examined(kind, fingerprint)

    def newest_manifests(self, name: str, at_most: int) -> list[Path]:
        return self.manifests.newest(name, at_most)

    def prepare(self, stages: Iterable[Stage]) -> None:
        self.manifests.prepare((stage.name, stage.fingerprint) for stage in with_ancestors(list(stages)))

    def discard(self, stage: Stage) -> None:
        key = (stage.name, stage.fingerprint)
        self.objects.delete([manifest_key(*key)])
        self.manifests.forget(*key)
        self.objects.delete_below(files_key(*key))
        self.objects.delete_below(work_key(stage.name, stage.fingerprint))
        shutil.rmtree(self.place(stage), ignore_errors=True)

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Upload the draft under its attempt, then the manifest. If another writer was first, theirs stays."""
        key = (stage.name, stage.fingerprint)
        attempt = draft.name.removeprefix(f".{stage.fingerprint}.")
        marker = draft_key(*key, attempt)
        named = {**complete(stage, manifest), "attempt": attempt}
        sealed_manifest = sealed(with_checksums(draft, named))
        if not self.has(stage):
            self.objects.write(marker, b"uploading")
            place = f"{files_key(*key)}/{attempt}"
            all_at_once(lambda name: self.objects.upload(f"{place}/{name}", draft / name), sealed_manifest["files"])
            if self.has(stage):
                self.objects.delete_below(place)
            else:
                content = json.dumps(sealed_manifest, indent=1, sort_keys=True)
                self.objects.write(manifest_key(*key), content.encode())
                write_file(draft / MANIFEST, content)
            self.objects.delete([marker])
            sweep_attempts(self.objects, *key)
        release_folder(draft)
        self.mirror.keep(stage.name, stage.fingerprint, draft, sealed_manifest["files"])
        self.objects.delete_below(work_key(stage.name, stage.fingerprint))
        return self.place(stage)

    def open_for_writing(self) -> None:
        self.prove_writable()
        content = self._read_if_any(VERSION_FILE)
        if is_unreadable(content):
            if content is not None:
                self.objects.write(aside_name(VERSION_FILE), content)
            self.objects.write(VERSION_FILE, version_note())

    def check_there(self) -> None:
        """Nothing to do: a writer to a bucket that is gone is told so, and makes none."""

    def prove_writable(self) -> None:
        super().prove_writable()  # the mirror
        try:
            self.objects.prove()
        except ObjectStoreError as error:
            raise InputError(f"--store {error}") from None

    def sweep_away_drafts(self) -> int:
        """Remove what dead writers left: here their drafts and work, in the store what they had uploaded."""
        removed = super().sweep_away_drafts()
        self._sweep_mirror("*", "*")
        for kind, fingerprint in {tuple(listed.key.split("/")[:2]) for listed in self.objects.listed("work")}:
            if self.manifests.has(kind, fingerprint):  # its writer died before it had cleared up
                self.objects.delete_below(work_key(kind, fingerprint))
                removed += 1
        return removed + sweep_drafts(self.objects)

    def _sweep_mirror(self, kind: str, fingerprint: str) -> None:
        """Remove work folders and drafts of writers that are gone; * for all."""
        for folder in self.root.glob(f"{kind}/{fingerprint}.work.*.*.*"):
            if is_gone(folder.name.split(".work.", 1)[1], folder):
                shutil.rmtree(folder, ignore_errors=True)
        for folder in self.root.glob(f"{kind}/.{fingerprint}.*.*.*"):
            if is_gone(folder.name[1:].split(".", 1)[1], folder):
                shutil.rmtree(folder, ignore_errors=True)

    def bring(self, kind: str, fingerprint: str, names: Iterable[str] | None = None) -> Path:
        """As `Mirror.bring`."""
        return self.mirror.bring(kind, fingerprint, names)

    def _read_if_any(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self.objects.read(key)
        return None

    def _mark(self, stage: Stage) -> dict[str, Any] | None:
        with suppress(OSError):
            return mark_from(self.objects.read(_mark_key(stage)))
        return None


def open_remote_store(url: str) -> RemoteStore:
    """The store at s3://bucket/prefix, if it can be read at once and is of a format we know; InputError otherwise."""
    url = url.rstrip("/")
    if not URL.fullmatch(url) or "/../" in f"{url}/" or "/./" in f"{url}/":
        raise InputError(f"--store {shown_uri(url)}: expected s3://bucket or s3://bucket/prefix")
    store = remote_store(url)
    try:
        refuse_other_versions(store.objects.prove_readable(VERSION_FILE), url)
    except ObjectStoreError as error:
        raise InputError(f"--store {error}") from None
    return store


def remote_store(url: str) -> RemoteStore:
    """The store at this address, without asking: on a worker, whose driver has asked."""
    root, objects = mirror_of(url), Objects(url=url)
    return RemoteStore(root=root, objects=objects, manifests=Manifests(objects=objects, root=root))


def _mark_key(stage: Stage) -> str:
    return f"{work_key(stage.name, stage.fingerprint)}/{PROGRESS_FILE}"
