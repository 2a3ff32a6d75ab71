"""Which manifests a remote store has, and their copies in the mirror: asked for once, read many at a time."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.common.machine import locked
from smoothsweep.orchestrator.store.common.sealing import FINGERPRINT
from smoothsweep.orchestrator.store.remote.layout import manifest_key
from smoothsweep.orchestrator.store.remote.objects import Listed, Objects, all_at_once

SETTLED_S = 5.0  # S3 tells seconds: a manifest this fresh may yet be replaced without looking changed


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
