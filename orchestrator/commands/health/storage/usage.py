"""Which artifacts of a store are used by which sweep, and how large they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from smoothsweep.core.files import NotPlainError
from smoothsweep.orchestrator.planning.state import read_trial_notes
from smoothsweep.orchestrator.store.base import DAMAGED, MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import FINGERPRINT, KIND, Damage

WORK = ".work"
Key = tuple[str, str]  # kind, fingerprint


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A store as its files tell it.

    Attributes:
        sizes: (kind, fingerprint) -> bytes of every finished artifact.
        sweeps: Name -> artifacts that its trials need, inputs included; None where its notes do not tell.
    """

    store: Store
    sizes: dict[Key, int]
    sweeps: dict[str, frozenset[Key] | None]

    @cached_property
    def used(self) -> frozenset[Key]:
        return frozenset().union(*(keys for keys in self.sweeps.values() if keys is not None))

    @property
    def unused(self) -> list[Key]:
        """Artifacts that no sweep of this store needs, sorted. Raises nothing: see `unknown_sweeps` first."""
        return sorted(set(self.sizes) - self.used)

    @property
    def unknown_sweeps(self) -> list[str]:
        """Sweeps whose needs are not known: their report was never written, or their notes are damaged."""
        return [name for name, keys in self.sweeps.items() if keys is None]

    def size(self, keys: frozenset[Key] | list[Key]) -> int:
        return sum(self.sizes.get(key, 0) for key in keys)

    def of_one_sweep(self, name: str) -> list[Key]:
        """What no other sweep needs: so much is freed when this one goes."""
        others = frozenset().union(*(keys or frozenset() for other, keys in self.sweeps.items() if other != name))
        return sorted((self.sweeps[name] or frozenset()) - others)


def usage_of(store: Store) -> Usage:
    """Look through a store: its artifacts, and what its sweeps' notes name."""
    sizes = {(entry.parent.name, entry.name): size_of(entry) for entry in _artifacts(store)}
    return Usage(store=store, sizes=sizes, sweeps={name: needs(store, name) for name in store.sweeps()})


def leftovers(store: Store) -> list[Path]:
    """Folders of unfinished work and of damaged artifacts, sorted."""
    kinds = [entry for entry in _folders(store.root) if KIND.fullmatch(entry.name)]
    work = [entry for kind in kinds for entry in _folders(kind) if entry.name.endswith(WORK)]
    return sorted([*work, *(entry for kind in _folders(store.root / DAMAGED) for entry in _folders(kind))])


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # it has just gone
                continue
    return total


def _artifacts(store: Store) -> Iterator[Path]:
    for kind in _folders(store.root):
        if KIND.fullmatch(kind.name) and kind.name not in ("sweeps", DAMAGED):
            yield from (
                entry for entry in _folders(kind) if FINGERPRINT.fullmatch(entry.name) and (entry / MANIFEST).exists()
            )


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return []


def needs(store: Store, name: str) -> frozenset[Key] | None:
    """Artifacts that the trials of a sweep need, inputs included; None where its notes do not tell.

    store: one that reads through others also tells what lies there.
    """
    notes = read_trial_notes(store, name)
    if not notes:
        return None
    needed: set[Key] = set()
    open_ones = [key for note in notes for key in note.stages.items()]
    while open_ones:
        key = open_ones.pop()
        if key not in needed:
            needed.add(key)
            open_ones += _inputs(store, key)
    return frozenset(needed)


def _inputs(store: Store, key: Key) -> list[Key]:
    """What an artifact was made of; nothing where it is not there, or its manifest is damaged."""
    try:
        manifest = store.manifest_of(*key)
    except (OSError, NotPlainError, Damage, json.JSONDecodeError):
        return []
    return [(source["stage"], source["fingerprint"]) for source in manifest["inputs"].values()]
