"""A store that reads through others: what a colleague's or a lab's store has finished is not made again.

`<store>/linked.json` names them. They are only read. What is found there is held to more than the store's own: the
manifest must be sealed, must state the configuration and the inputs of the stage that is asked for, and none but its
owner, this user and root may be able to change it. What fails is told in a line and made anew in the own store.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.files import NotPlainError, plain_content, write_file
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.common import verifying
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST, complete, read_artifact, report_damage
from smoothsweep.orchestrator.store.common.sealing import Damage
from smoothsweep.orchestrator.store.common.version import refuse_other_versions
from smoothsweep.orchestrator.store.local import LocalStore

LINKS_FILE = "linked.json"
OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_fit: dict[Path, tuple[int, ...]] = {}  # artifact of another store -> its manifest's signature when it was held fit
_refused: set[Path] = set()  # artifacts of other stores that this process does not use


@dataclass(frozen=True, kw_only=True)
class LinkedStore(LocalStore):
    """The store at `root`, which is written, and `others`, which are only read, in this order."""

    others: tuple[LocalStore, ...] = ()

    def has(self, stage: Stage) -> bool:
        return super().has(stage) or self.find_other(stage) is not None

    def path(self, stage: Stage) -> Path:
        if not super().has(stage) and (other := self.find_other(stage)) is not None:
            manifest = other.manifest(stage)
            self._verify(other, stage, manifest["files"])
            return other.place(stage)
        return super().path(stage)

    def file(self, stage: Stage, name: str) -> Path | None:
        if not super().has(stage) and (other := self.find_other(stage)) is not None:
            files = other.manifest(stage)["files"]
            if name not in files:
                return None
            self._verify(other, stage, {name: files[name]})
            return other.place(stage) / name
        return super().file(stage, name)

    def manifest(self, stage: Stage) -> dict[str, Any]:
        if not super().has(stage) and (other := self.find_other(stage)) is not None:
            return other.manifest(stage)
        return super().manifest(stage)

    def manifest_file(self, kind: str, fingerprint: str) -> Path:
        here_file = super().manifest_file(kind, fingerprint)
        files = (other.manifest_file(kind, fingerprint) for other in self.others)
        return here_file if here_file.exists() else next((path for path in files if path.exists()), here_file)

    def finished(self, name: str) -> set[str]:
        return super().finished(name).union(*(other.finished(name) for other in self.others))

    def newest_manifests(self, name: str, at_most: int) -> list[Path]:
        """Its own first: what stages cost is best told by one's own machine."""
        manifests = super().newest_manifests(name, at_most)
        for other in self.others:
            manifests += other.newest_manifests(name, at_most - len(manifests)) if len(manifests) < at_most else []
        return manifests

    def examined(self, kind: str, fingerprint: str) -> dict[str, Any]:
        """The manifest of its own artifact, as `doctor` asks; of another store's where it has none."""
        if super().manifest_file(kind, fingerprint).exists():
            return super().examined(kind, fingerprint)
        for other in self.others:
            with suppress(FileNotFoundError):
                return other.examined(kind, fingerprint)
        return super().examined(kind, fingerprint)

    def find_other(self, stage: Stage) -> LocalStore | None:
        """The first other store that holds this stage, fit to be used; None if none does."""
        for other in self.others:
            place = other.place(stage)
            if place in _refused:
                continue
            try:
                signature = _signature(place)
                if _fit.get(place) != signature:
                    self._check_other(stage, read_artifact(place), place)
                    _fit[place] = signature
            except FileNotFoundError:
                continue
            except (Damage, OSError) as error:
                self._refuse(other, stage, str(error))
                continue
            return other
        return None

    def _check_other(self, stage: Stage, manifest: dict[str, Any], place: Path) -> None:
        """Raise Damage unless the artifact is what was asked for, and others cannot change it."""
        expected = complete(stage, {})
        if canonical_json(manifest["config"]) != canonical_json(json.loads(json.dumps(expected["config"]))):
            raise Damage("its manifest states another configuration")
        # A manifest also states the digest of each input's result, which is not known when a stage is planned.
        inputs = {
            role: {key: source[key] for key in ("stage", "fingerprint")} for role, source in manifest["inputs"].items()
        }
        if inputs != expected["inputs"]:
            raise Damage("its manifest states other inputs")
        trusted = {0, os.getuid(), self._owner_of(place.parent.parent)}
        for path in (place.parent.parent, place.parent, place, *place.iterdir()):
            status = path.lstat()
            if status.st_uid not in trusted:
                raise Damage(f"{path.name} belongs to user {status.st_uid}, who is not the store's owner")
            keeps = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # others can only add to it
            if status.st_mode & OPEN_TO_OTHERS and not keeps:
                mode = f"{stat.S_IMODE(status.st_mode):o}"
                raise Damage(f"others may change {path.name} (mode {mode}; chmod -R go-w closes a store)")

    def _verify(self, other: LocalStore, stage: Stage, files: dict[str, str]) -> None:
        """Raise ArtifactDamaged where a file is not what its manifest says; the artifact is then not used again."""
        try:
            verifying.verify(other.place(stage), files)
        except Damage as damage:
            self._refuse(other, stage, str(damage))
            raise ArtifactDamaged(f"{stage.label} of {other.location}: {damage}; it is made anew") from None

    def _refuse(self, other: LocalStore, stage: Stage, why: str) -> None:
        _refused.add(other.place(stage))
        report_damage(f"{other.location}: {stage.label} is not used: {why}; it is made anew")

    @staticmethod
    def _owner_of(root: Path) -> int:
        return root.stat().st_uid


def _signature(place: Path) -> tuple[int, ...]:
    status = (place / MANIFEST).stat()
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def with_links(store: LocalStore) -> LocalStore:
    """The store itself, or one that reads through those that its `linked.json` names.

    Raises InputError for a list that cannot be read, and for a store that is not there or of a newer format.
    """
    locations = links_of(store)
    if not locations:
        return store
    return LinkedStore(root=store.root, others=tuple(other_store(location, store) for location in locations))


def links_of(store: LocalStore) -> list[str]:
    """Folders of the stores that this one reads through, in order. Raises InputError for a damaged list."""
    path = store.root / LINKS_FILE
    try:
        named = json.loads(plain_content(path))["stores"]
        if not isinstance(named, list) or not all(isinstance(path, str) for path in named):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (NotPlainError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path}: expected the list of linked stores, got something else; remove the file") from None
    return named


def write_links(store: LocalStore, locations: Iterable[str]) -> None:
    """Replace the list of stores that this one reads through."""
    write_file(store.root / LINKS_FILE, json.dumps({"stores": list(locations)}, indent=1), parents=True)


def other_store(location: str, own: LocalStore) -> LocalStore:
    """A store that is to be read through. Raises InputError where there is none, or one that cannot serve."""
    root = Path(location).expanduser().resolve()
    if not root.is_dir():
        got = "a file" if root.exists() else "nothing there"
        raise InputError(
            f"linked store {root}: expected the store of an earlier run, got {got}; "
            f"`smoothsweep store unlink {root} --store {own.location}` goes on without it"
        )
    if root == own.root:
        raise InputError(f"linked store {root}: expected another store than --store, got the same")
    store = LocalStore(root=root)
    refuse_other_versions(store.version_note(), store.location)
    return store
