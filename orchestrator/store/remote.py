"""The artifact store on S3: an artifact exists when its manifest object does, and that one is written last.

Two writers of one stage never write the same object but the manifest; whichever is there in the end names files that
are all there. Tasks read local paths: artifacts come into a mirror on each machine, verified. Below the prefix:

    <stage>/<fingerprint>/manifest.json         names the attempt whose files make the artifact
    files/<stage>/<fingerprint>/<attempt>/...   what that attempt made; <attempt> is its writer
    damaged/<stage>/<fingerprint>.<random>/...  what was not what its manifest says, with that manifest
    drafts/<stage>.<fingerprint>.<attempt>      there while an attempt uploads: what is to be swept if it dies
    work/<stage>/<fingerprint>/...              what an unfinished stage keeps between attempts
    sweeps/<name>/...                           state, notes and report of a sweep
    store.json                                  the format's version
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.files import plain_content, rename_folder, replacing, write_file
from smoothsweep.core.uris import shown_uri
from smoothsweep.core.writers import hold_folder, is_gone, release_folder, writer_name
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import MANIFEST, Store, manifest_text, seal_draft
from smoothsweep.orchestrator.store.manifests import (
    FINGERPRINT,
    Damage,
    cache_folder,
    is_plain_name,
    locked,
    note_as_right,
    read_manifest,
    verify,
)
from smoothsweep.orchestrator.store.objects import (
    PROBE_ATTEMPTS,
    SCHEME,
    Objects,
    ObjectStoreError,
    all_at_once,
    endpoint,
)
from smoothsweep.tasks.context import PROGRESS_FILE, mark_content, mark_from
from smoothsweep.tasks.registry import stage_label

URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/\s]+)*")
DRAFTS = "drafts"
RAY_TRAIN = "ray_train/"  # Ray Train keeps its checkpoints in the store itself
FOREIGN_DRAFT_S = 24 * 3600.0  # no upload takes that long: an attempt of a machine that is gone
MARKS_EVERY_S = 5.0  # progress marks are asked for as often as they are pushed
PUSH_EVERY_S = 5.0  # what a lost machine may cost beyond the last checkpoint
SETTLED_S = 5.0  # S3 tells seconds: a manifest this fresh may yet be replaced without looking changed


@dataclass(frozen=True, kw_only=True)
class RemoteStore(Store):
    """The store at `objects.url`; `root` is its mirror on this machine. Travels to workers as its URL alone.

    A stage once seen finished is taken as finished by this process. It is also what workers of one training on several
    machines share (`tasks.context.SharedFolders`); paths are then of any machine's mirror: <root>/<stage>/<name>.
    """

    objects: Objects
    _known: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)  # finished: changed at
    _marks: dict[str, tuple[float, dict[str, Any] | None]] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return remote_store, (self.objects.url,)

    # What is finished.

    def has(self, stage: Stage) -> bool:
        key = (stage.name, stage.fingerprint)
        if key not in self._known and (changed := self.objects.changed(_manifest_key(*key))) is not None:
            self._known[key] = changed
        return key in self._known

    def manifest(self, stage: Stage) -> dict[str, Any]:
        return self._manifest(stage.name, stage.fingerprint)

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        """Its copy in the mirror, brought anew unless it is the store's; files there of another attempt then go.

        Raises FileNotFoundError where there is none.
        """
        key, path = _manifest_key(kind, fingerprint), self.root / kind / fingerprint / MANIFEST
        changed = self._known.get((kind, fingerprint)) or self.objects.changed(key)
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns == changed:
                return path
        content = None if changed is None else self.read(key)
        if changed is None or content is None:
            self._known.pop((kind, fingerprint), None)
            raise FileNotFoundError(2, "No such object", f"{self.objects.url}/{key}")
        with locked(self.root, f"{kind}.{fingerprint}.manifest"):
            if path.is_file() and path.read_bytes() != content:
                shutil.rmtree(path.parent, ignore_errors=True)
            if not path.is_file():
                write_file(path, content, parents=True)
            settled = time.time() - changed / 1e9 > SETTLED_S
            os.utime(path, ns=(changed, changed) if settled else (0, 0))
        self._known[kind, fingerprint] = changed
        return path

    def _newest(self, kind: str, at_most: int) -> list[Path]:
        found = sorted(((changed, name) for name, changed in self._list(kind).items()), reverse=True)[:at_most]
        return self._bring_manifests([(kind, name) for _, name in found])

    def finished(self, kind: str) -> set[str]:
        return set(self._list(kind))

    def prepare(self, stages: Iterable[Stage]) -> None:
        keys = [(stage.name, stage.fingerprint) for stage in with_ancestors(list(stages))]
        for kind in {kind for kind, _ in keys}:
            self._list(kind)
        self._bring_manifests([key for key in keys if key in self._known])

    def look_again(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            self._known.pop((stage.name, stage.fingerprint), None)

    def _list(self, kind: str) -> dict[str, int]:
        """Fingerprint -> when its manifest changed, of all stages of this kind that are finished now."""
        names = {item.key.removesuffix(f"/{MANIFEST}"): item.changed for item in self.objects.listed(kind)}
        found = {name: changed for name, changed in names.items() if FINGERPRINT.fullmatch(name)}
        self._known.update({(kind, name): changed for name, changed in found.items()})
        return found

    def _bring_manifests(self, keys: Iterable[tuple[str, str]]) -> list[Path]:
        """Copies of many at once; those that are deleted meanwhile are left out."""

        def one(key: tuple[str, str]) -> Path | None:
            with suppress(FileNotFoundError):
                return self.manifest_file(*key)
            return None

        return [path for path in all_at_once(one, keys) if path is not None]

    def _manifest(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest's copy in the mirror; brought anew if it is damaged, and the artifact given up if that is."""
        damage = Damage()
        for _ in range(2):
            content = plain_content(self.manifest_file(kind, fingerprint))
            try:
                return read_manifest(content, kind, fingerprint)
            except Damage as found:
                damage = found
                shutil.rmtree(self.root / kind / fingerprint, ignore_errors=True)
        raise self._give_up(kind, fingerprint, damage)

    def _verified(self, stage: Stage, files: dict[str, str]) -> Path:
        return self._bring(stage.name, stage.fingerprint, files)

    def _bring(self, kind: str, fingerprint: str, names: Iterable[str] | None = None) -> Path:
        """The artifact's folder in the mirror with all its files, or these, verified.

        Raises FileNotFoundError where there is no such artifact, and ArtifactDamaged, the artifact set aside, where the
        store's own objects are not what they were.
        """
        missing = ""
        for _ in range(2):
            manifest, folder = self._manifest(kind, fingerprint), self.root / kind / fingerprint
            files = manifest["files"]
            wanted = files if names is None else {name: files[name] for name in names}
            try:
                self._fetch(f"{_files_key(kind, fingerprint)}/{manifest['attempt']}", folder, wanted)
                return folder
            except FileNotFoundError as error:  # of an attempt that lost against another one meanwhile
                missing = Path(str(error.filename)).name
                self._known.pop((kind, fingerprint), None)
            except Damage as damage:
                raise self._give_up(kind, fingerprint, damage) from None
        raise self._give_up(kind, fingerprint, f"{missing} is missing")

    def _fetch(self, place: str, folder: Path, wanted: dict[str, str]) -> None:
        """Bring those files (name -> SHA-256) that the folder lacks or that are not right there."""

        def fetch(name: str) -> None:
            with suppress(Damage):
                return verify(folder, {name: wanted[name]})
            with replacing(folder / name) as temporary:
                self.objects.download(f"{place}/{name}", temporary)

        with suppress(Damage):  # not here yet, or not what it was: the store's objects replace it
            return verify(folder, wanted)
        with locked(self.root, f"{folder.parent.name}.{folder.name}.files"):  # one worker downloads
            all_at_once(fetch, wanted)
            verify(folder, wanted)

    def _give_up(self, kind: str, fingerprint: str, why: str | Exception) -> ArtifactDamaged:
        """Its manifest is moved first, so that none owns the rest."""
        place, key = f"damaged/{kind}/{fingerprint}.{uuid.uuid4().hex[:8]}", _manifest_key(kind, fingerprint)
        attempts = _files_key(kind, fingerprint)
        if (content := self.read(key)) is not None:  # else another process is at it
            self.rename(key, f"{place}/{MANIFEST}")
            named = _attempt_in(content)  # None of one that is unreadable: all attempts are moved
            self.objects.move_below(f"{attempts}/{named}" if named else attempts, f"{place}/files")
        self._known.pop((kind, fingerprint), None)
        shutil.rmtree(self.root / kind / fingerprint, ignore_errors=True)
        where = f"it is set aside in {self.objects.url}/{place} and made again"
        return ArtifactDamaged(f"{stage_label(kind, fingerprint)}: {why}; {where}")

    # What is being made.

    def work(self, stage: Stage) -> Path:
        """A folder of this attempt alone: attempts meet in the store, not in a mirror."""
        return self.root / stage.name / f"{stage.fingerprint}.work.{writer_name()}"

    @contextmanager
    def working(self, stage: Stage, only: Collection[str] | None = None) -> Generator[Path]:
        self._sweep_mirror(stage.name, stage.fingerprint)  # of attempts killed on a machine that has no driver
        with self._attempt(self.work(stage), only, pulled=True) as work:
            yield work

    def kept(self, stage: Stage, folder: str) -> set[str]:
        return self._names(f"{_work_key(stage.name, stage.fingerprint)}/{folder}")

    def marks(self, stages: Iterable[Stage]) -> list[dict[str, Any] | None]:
        """A mark is asked for every MARKS_EVERY_S at most; one that cannot be had is None."""
        stages = list(stages)
        old = [s for s in stages if time.monotonic() - self._marks.get(s.fingerprint, (-1e9, None))[0] > MARKS_EVERY_S]
        for stage, mark in zip(old, all_at_once(self._mark, old), strict=True):
            self._marks[stage.fingerprint] = (time.monotonic(), mark)
        return [self._marks[stage.fingerprint][1] for stage in stages]

    def _mark(self, stage: Stage) -> dict[str, Any] | None:
        with suppress(OSError):
            return mark_from(self.objects.read(f"{_work_key(stage.name, stage.fingerprint)}/{PROGRESS_FILE}"))
        return None

    def mark(self, stage: Stage, fraction: float, text: str) -> None:
        with suppress(OSError):  # a mark is a courtesy
            key = f"{_work_key(stage.name, stage.fingerprint)}/{PROGRESS_FILE}"
            self.write(key, mark_content(fraction, text).encode())

    def commit(self, stage: Stage, draft: Path, manifest: dict[str, Any]) -> Path:
        """Upload the draft under its attempt, then the manifest. If another writer was first, theirs stays."""
        key, final = (stage.name, stage.fingerprint), self.place(stage)
        attempt = draft.name.removeprefix(f".{stage.fingerprint}.")
        marker, place = f"{DRAFTS}/{stage.name}.{stage.fingerprint}.{attempt}", f"{_files_key(*key)}/{attempt}"
        manifest = seal_draft(stage, draft, {**manifest, "attempt": attempt})
        if not self.has(stage):
            self.write(marker, b"uploading")
            all_at_once(lambda name: self.objects.upload(f"{place}/{name}", draft / name), manifest["files"])
            if not self.has(stage):  # else the attempt is swept
                self.write(_manifest_key(*key), manifest_text(manifest).encode())
                write_file(draft / MANIFEST, manifest_text(manifest))
            self.objects.delete(marker)
            self._sweep_attempts(*key)
        release_folder(draft)
        with locked(self.root, f"{stage.name}.{stage.fingerprint}.manifest"):
            if (draft / MANIFEST).is_file() and not final.exists():  # what was just made need not be downloaded here
                rename_folder(draft, final)
                note_as_right(final, manifest["files"])
        shutil.rmtree(draft, ignore_errors=True)
        self.objects.delete_below(_work_key(*key))
        return final

    def discard(self, stage: Stage) -> None:
        key = (stage.name, stage.fingerprint)
        self.objects.delete(_manifest_key(*key))
        self._known.pop(key, None)
        self.objects.delete_below(_files_key(*key))
        self.objects.delete_below(_work_key(*key))
        shutil.rmtree(self.place(stage), ignore_errors=True)

    # Small files.

    def read(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self.objects.read(key)
        return None

    def write(self, key: str, content: bytes) -> None:
        self.objects.write(key, content)

    def rename(self, key: str, to: str) -> None:
        self.objects.write(to, self.objects.read(key))
        self.objects.delete(key)

    def _names(self, folder: str) -> set[str]:
        return {listed.key.split("/")[0] for listed in self.objects.listed(folder)}

    def publish(self, folder: Path, name: str) -> None:
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        place = f"sweeps/{name}"
        all_at_once(lambda path: self.objects.upload(f"{place}/{path.relative_to(folder).as_posix()}", path), files)

    # What workers of one training share.

    @property
    def shared_folders(self) -> RemoteStore:
        return self

    def bring(self, artifact: Path) -> Path:
        return self._bring(artifact.parent.name, artifact.name)

    @contextmanager
    def joined(self, work: Path) -> Generator[Path]:
        folder = self.root / work.parent.name / f"{work.name.split('.', 1)[0]}.work.{writer_name()}"
        with self._attempt(folder, None, pulled=False) as joined:
            yield joined

    def pull(self, work: Path, only: Collection[str] | None = None) -> None:
        """Bring the files of earlier attempts that `work` lacks. only: these names, None for all but Ray Train's."""
        prefix = _key_of(work)
        names = [listed.key for listed in self.objects.listed(prefix) if not listed.key.startswith(RAY_TRAIN)]

        def bring(name: str) -> None:
            with suppress(FileNotFoundError), replacing(work / name, parents=True) as temporary:
                self.objects.download(f"{prefix}/{name}", temporary)  # not found: the stage was finished meanwhile

        todo = [name for name in names if only is None or name in only]
        all_at_once(bring, [name for name in todo if not (work / name).exists()])

    def checkpoints(self, work: Path) -> tuple[Any, str]:
        return self.objects.filesystem, self.objects.place(_key_of(work))

    @contextmanager
    def _attempt(self, work: Path, only: Collection[str] | None, *, pulled: bool) -> Generator[Path]:
        """A new folder of one attempt, pushed to the store while it is open, removed after that."""
        work.mkdir(parents=True)
        hold_folder(work)
        try:
            if pulled:
                self.pull(work, only)
            with _pushing(self.objects, _key_of(work), work):
                yield work
        finally:
            release_folder(work)
            shutil.rmtree(work, ignore_errors=True)

    # The store itself.

    @property
    def location(self) -> str:
        return self.objects.url

    def check_there(self) -> None:
        """Nothing to do: a writer to a bucket that is gone is told so, and makes none."""

    def prove_writable(self) -> None:
        super().prove_writable()  # the mirror
        hasty, probe = replace(self.objects, attempts=PROBE_ATTEMPTS), f".probe.{os.urandom(4).hex()}"
        try:
            hasty.write(probe, b"x")
            hasty.delete(probe)
        except ObjectStoreError as error:
            raise InputError(f"--store {error}") from None

    def sweep_away_drafts(self) -> int:
        """Remove what dead writers left: here their drafts and work, in the store what they had uploaded.

        Of another machine an upload that began more than a day ago. What a killed multi-part upload left is no object
        and cannot be seen: a life-cycle rule of the bucket removes it (docs/cluster.md).
        """
        removed = super().sweep_away_drafts()
        self._sweep_mirror("*", "*")
        for kind, fingerprint in {tuple(listed.key.split("/")[:2]) for listed in self.objects.listed("work")}:
            if (kind, fingerprint) in self._known or self.objects.changed(_manifest_key(kind, fingerprint)) is not None:
                self.objects.delete_below(_work_key(kind, fingerprint))  # its writer died before it had cleared up
                removed += 1
        for listed in self.objects.listed(DRAFTS):
            kind, fingerprint, attempt = listed.key.split(".", 2)
            if is_gone(attempt) or time.time() - listed.changed / 1e9 > FOREIGN_DRAFT_S:
                self.objects.delete(f"{DRAFTS}/{listed.key}")
                self._sweep_attempts(kind, fingerprint)
                removed += 1
        return removed

    def _sweep_attempts(self, kind: str, fingerprint: str) -> None:
        """Remove the files of attempts at a stage that its manifest does not name and no process is uploading."""
        attempts = self._names(_files_key(kind, fingerprint))
        prefix = f"{kind}.{fingerprint}."  # drafts first: a writer puts the manifest before it removes its draft's mark
        keep = {item.key.removeprefix(prefix) for item in self.objects.listed(DRAFTS) if item.key.startswith(prefix)}
        content = self.read(_manifest_key(kind, fingerprint))
        if content is not None and (named := _attempt_in(content)) is None:
            return  # damaged: its reader sets its files aside
        for attempt in attempts - keep - ({named} if content is not None else set()):
            self.objects.delete_below(f"{_files_key(kind, fingerprint)}/{attempt}")

    def _sweep_mirror(self, kind: str, fingerprint: str) -> None:
        """Remove work folders and drafts of writers that are gone; * for all."""
        for pattern in (f"{fingerprint}.work.*.*.*", f".{fingerprint}.*.*.*"):
            for folder in self.root.glob(f"{kind}/{pattern}"):
                writer = folder.name.removeprefix(".").split(".", 1)[1].removeprefix("work.")
                if is_gone(writer, folder):
                    shutil.rmtree(folder, ignore_errors=True)


def open_remote_store(url: str) -> RemoteStore:
    """The store at s3://bucket/prefix, if it can be read at once and is of a format we know; InputError otherwise."""
    url = url.rstrip("/")
    if not URL.fullmatch(url) or "/../" in f"{url}/" or "/./" in f"{url}/":
        raise InputError(f"--store {shown_uri(url)}: expected s3://bucket or s3://bucket/prefix")
    store = remote_store(url)
    hasty = replace(store.objects, attempts=PROBE_ATTEMPTS)
    try:
        hasty.prove_readable()
        replace(store, objects=hasty).refuse_newer()
    except ObjectStoreError as error:
        raise InputError(f"--store {error}") from None
    return store


def remote_store(url: str) -> RemoteStore:
    """The store at this address, without asking: on a worker, whose driver has asked.

    Its mirror's name holds a digest of address and service: buckets of one name at two services share no folder.
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url.removeprefix(SCHEME))[:60]
    digest = hashlib.sha256(f"{endpoint()} {url}".encode()).hexdigest()[:8]
    root = cache_folder() / "stores" / f"{readable}-{digest}"
    return RemoteStore(root=root, objects=Objects(url=url))


@contextmanager
def _pushing(objects: Objects, prefix: str, folder: Path) -> Generator[None]:
    """While the block runs, bring what changes in `folder` to `prefix` every few seconds, and once more at its end.

    What lies there now is taken as known. Names that start with a dot are half-written and stay here. A push that
    fails is tried again with the next; the last one's ObjectStoreError passes through.
    """
    known, over = dict(_files(folder)), threading.Event()

    def push() -> None:
        for name, seen in list(_files(folder)):
            if known.get(name) != seen:
                with suppress(FileNotFoundError):  # replaced or removed meanwhile
                    objects.upload(f"{prefix}/{name}", folder / name)
                    known[name] = seen

    def keep_pushing() -> None:
        while not over.wait(PUSH_EVERY_S):
            with suppress(ObjectStoreError):
                push()

    pusher = threading.Thread(target=keep_pushing, name="push-work", daemon=True)
    pusher.start()
    try:
        yield
    except BaseException:
        over.set()
        pusher.join()
        with suppress(ObjectStoreError):  # the block's own error is the one to tell
            push()
        raise
    over.set()
    pusher.join()
    push()


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """(name, time of change, size and inode) of each file below."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        with suppress(FileNotFoundError):
            status = path.stat()
            if path.is_file() and not any(part.startswith(".") for part in name.parts):
                yield name.as_posix(), (status.st_mtime_ns, status.st_size, status.st_ino)


def _attempt_in(manifest: bytes) -> str | None:
    """The attempt that a manifest names, None where it is not to be read."""
    with suppress(ValueError, TypeError, KeyError):
        named = json.loads(manifest)["attempt"]
        return named if isinstance(named, str) and is_plain_name(named) else None
    return None


def _manifest_key(kind: str, fingerprint: str) -> str:
    return f"{kind}/{fingerprint}/{MANIFEST}"


def _files_key(kind: str, fingerprint: str) -> str:
    return f"files/{kind}/{fingerprint}"


def _work_key(kind: str, fingerprint: str) -> str:
    return f"work/{kind}/{fingerprint}"


def _key_of(work: Path) -> str:
    """Where in the store the files of a work folder of any machine's mirror belong."""
    return _work_key(work.parent.name, work.name.split(".", 1)[0])
