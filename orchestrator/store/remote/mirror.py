"""The mirror of a remote store on this machine: manifests, read many at a time, and files, verified as they come."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged
from smoothsweep.core.files import plain_content, rename_folder, replacing, write_file
from smoothsweep.orchestrator.store.common import verifying
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.common.machine import cache_folder, locked
from smoothsweep.orchestrator.store.common.sealing import FINGERPRINT, Damage, read_manifest
from smoothsweep.orchestrator.store.remote.layout import files_key, manifest_key, set_artifact_aside
from smoothsweep.orchestrator.store.remote.objects import SCHEME, Listed, Objects, all_at_once, endpoint
from smoothsweep.tasks.stage_names import stage_label

SETTLED_S = 5.0  # S3 tells seconds: a manifest this fresh may yet be replaced without looking changed


def mirror_of(url: str) -> Path:
    """The folder for this store under the machine's cache.

    The name holds a digest of address and service, so that two services' buckets of one name do not share a folder.
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url.removeprefix(SCHEME))[:60]
    digest = hashlib.sha256(f"{endpoint()} {url}".encode()).hexdigest()[:8]
    return cache_folder() / "stores" / f"{readable}-{digest}"


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """root: of the mirror. A stage once seen finished is taken as finished by this process."""

    objects: Objects
    root: Path
    _known: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)  # finished: changed at
    _listed: dict[str, list[Listed]] = field(default_factory=dict, repr=False, compare=False)  # by kind of stage

    def has(self, kind: str, fingerprint: str) -> bool:
        key = (kind, fingerprint)
        if key not in self._known:
            info = self.objects.info(manifest_key(*key))
            if info is None:
                return False
            self._known[key] = info.changed
        return True

    def forget(self, kind: str, fingerprint: str) -> None:
        self._known.pop((kind, fingerprint), None)

    def listed(self, kind: str) -> list[Listed]:
        """Every manifest of this kind of stage as it is now; keys start with the fingerprint."""
        listed = self.objects.listed(kind)
        manifests = [item for item in listed if FINGERPRINT.fullmatch(item.key.removesuffix(f"/{MANIFEST}"))]
        for item in manifests:
            self._known[(kind, item.key.split("/")[0])] = item.changed
        self._listed[kind] = manifests
        return manifests

    def newest(self, kind: str, at_most: int) -> list[Path]:
        """Copies of the newest manifests of this kind, by the last listing if there was one."""
        listed = self._listed[kind] if kind in self._listed else self.listed(kind)  # a plan has just listed it
        newest = sorted(listed, key=lambda item: (item.changed, item.key), reverse=True)[:at_most]
        return self.bring([(kind, item.key.split("/")[0]) for item in newest])

    def prepare(self, keys: Iterable[tuple[str, str]]) -> None:
        """Bring copies of those of these manifests that there are."""
        keys = list(keys)
        for kind in {kind for kind, _ in keys}:
            self.listed(kind)
        self.bring([key for key in keys if key in self._known])

    def bring(self, keys: Iterable[tuple[str, str]]) -> list[Path]:
        """Copies of many at once; those that are deleted meanwhile are left out."""

        def one(key: tuple[str, str]) -> Path | None:
            with suppress(FileNotFoundError):
                return self.copy(*key)
            return None

        return [path for path in all_at_once(one, keys) if path is not None]

    def copy(self, kind: str, fingerprint: str) -> Path:
        """The copy in the mirror, brought anew unless it is the store's. FileNotFoundError where there is none."""
        path = self.root / kind / fingerprint / MANIFEST
        changed = self._known.get((kind, fingerprint))
        with suppress(FileNotFoundError):
            if changed is not None and path.stat().st_mtime_ns == changed:
                return path
        return self.refresh(kind, fingerprint, changed)

    def refresh(self, kind: str, fingerprint: str, changed: int | None = None) -> Path:
        """Read the store's manifest into the mirror; files there that belong to another attempt go.

        changed: when it changed last, if that is known.
        """
        key, path = manifest_key(kind, fingerprint), self.root / kind / fingerprint / MANIFEST
        try:
            changed = self._changed(key) if changed is None else changed
            content = self.objects.read(key)
        except FileNotFoundError:
            self.forget(kind, fingerprint)
            raise
        with locked(self.root, f"{kind}.{fingerprint}.manifest"):
            if path.is_file() and path.read_bytes() != content:
                shutil.rmtree(path.parent, ignore_errors=True)
            if not path.is_file():
                write_file(path, content, parents=True)
            settled = time.time() - changed / 1e9 > SETTLED_S
            os.utime(path, ns=(changed, changed) if settled else (0, 0))
        self._known[(kind, fingerprint)] = changed
        return path

    def _changed(self, key: str) -> int:
        info = self.objects.info(key)
        if info is None:
            raise FileNotFoundError(2, "No such object", f"{self.objects.url}/{key}")
        return info.changed


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Copies of artifacts below `root`."""

    root: Path
    objects: Objects
    manifests: Manifests

    def bring(self, kind: str, fingerprint: str, names: Iterable[str] | None = None) -> Path:
        """The artifact's folder in the mirror with all its files, or these, verified.

        Raises FileNotFoundError where there is no such artifact, and ArtifactDamaged, the artifact set aside, where the
        store's own objects are not what they were.
        """
        try:
            return self._bring_files(kind, fingerprint, names)
        except FileNotFoundError:  # of an attempt that lost against another one meanwhile
            self.manifests.refresh(kind, fingerprint)
        try:
            return self._bring_files(kind, fingerprint, names)
        except FileNotFoundError as error:
            damage = Damage(f"{Path(str(error.filename)).name} is missing")
            raise self.give_up(kind, fingerprint, damage) from None

    def _bring_files(self, kind: str, fingerprint: str, names: Iterable[str] | None) -> Path:
        manifest, folder = self.manifest(kind, fingerprint), self.root / kind / fingerprint
        place = f"{files_key(kind, fingerprint)}/{manifest['attempt']}"
        wanted = {name: manifest["files"][name] for name in (manifest["files"] if names is None else names)}
        try:
            verifying.verify(folder, wanted)
            return folder
        except Damage:
            pass  # not here yet, or not what it was: the store's objects replace it
        with locked(self.root, f"{kind}.{fingerprint}.files"):  # machines have many workers: one downloads
            todo = [name for name in wanted if verifying.is_damaged(folder, name, wanted[name])]
            try:
                all_at_once(lambda name: fetch(self.objects, f"{place}/{name}", folder / name, wanted[name]), todo)
            except Damage as damage:
                raise self.give_up(kind, fingerprint, damage) from None
        with suppress(Damage):
            verifying.verify(folder, wanted)
        return folder

    def manifest(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest's copy in the mirror; brought anew if it is damaged, and the artifact given up if that is."""
        for path in (lambda: self.manifests.copy(kind, fingerprint), lambda: self.manifests.refresh(kind, fingerprint)):
            content = plain_content(path())
            try:
                return read_manifest(content, kind, fingerprint)
            except Damage as found:
                damage = found
                shutil.rmtree(self.root / kind / fingerprint, ignore_errors=True)
        raise self.give_up(kind, fingerprint, damage)

    def give_up(self, kind: str, fingerprint: str, damage: Damage) -> ArtifactDamaged:
        """Set a damaged artifact aside, in the store; the error that says so."""
        place = set_artifact_aside(self.objects, kind, fingerprint)
        self.manifests.forget(kind, fingerprint)
        shutil.rmtree(self.root / kind / fingerprint, ignore_errors=True)
        where = f"it is set aside in {self.objects.url}/{place} and made again"
        return ArtifactDamaged(f"{stage_label(kind, fingerprint)}: {damage}; {where}")

    def keep(self, kind: str, fingerprint: str, draft: Path, files: dict[str, str]) -> None:
        """What was just made need not be downloaded here, if it is what the store holds: the draft becomes the copy."""
        place = self.root / kind / fingerprint
        with locked(self.root, f"{kind}.{fingerprint}.manifest"):
            if (draft / MANIFEST).is_file() and not place.exists():
                rename_folder(draft, place)
                verifying.note_as_right(place, files)
        shutil.rmtree(draft, ignore_errors=True)

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """As `Store.examined`: the store's own objects, all brought here once more and thrown away."""
        manifest = read_manifest(self.objects.read(manifest_key(kind, fingerprint)), kind, fingerprint)
        place, probe = f"{files_key(kind, fingerprint)}/{manifest['attempt']}", self.root / f".probe.{uuid.uuid4().hex}"
        for name, expected in manifest["files"].items():
            try:
                if self.objects.download(f"{place}/{name}", probe) != expected:
                    raise Damage(f"{name} differs from its checksum")
            except FileNotFoundError:
                raise Damage(f"{name} is missing") from None
            finally:
                probe.unlink(missing_ok=True)
        return manifest


def fetch(objects: Objects, key: str, path: Path, checksum: str) -> None:
    """Bring one object of an artifact: under a temporary name, verified, renamed.

    Raises FileNotFoundError where there is no such object and Damage where it is not what it was.
    """
    with replacing(path) as temporary:
        got = objects.download(key, temporary)
        if got != checksum:
            raise Damage(f"{path.name} differs from its checksum")
