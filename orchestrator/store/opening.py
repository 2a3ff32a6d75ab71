"""A store by its location, and the other stores that it reads through: what they have finished is not made again.

`<store>/linked.json` names those.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import VERSION_FILE
from smoothsweep.tasks.registry import TASKS

LINKS_FILE = "linked.json"
MARKS = (VERSION_FILE, "sweeps", "imported", "damaged", "mlflow.db")
"""Names in a store, beside the folders of its stages."""

_OF_THE_DISK = ("lost+found",)
"""What a new disk has that was mounted to become a store."""

REMEDY = "; smoothsweep run SWEEP.yaml makes one, --store says where another is"
"""What to do where no run has been."""


def open_store(location: str) -> Store:
    """A store at a path, a file:// URL or s3://bucket/prefix, which reads through those that it is linked to.

    Raises InputError for another kind of URL, a file, a folder that holds other things alone, a store of a newer
    format, a bucket that cannot be read, and a linked store that cannot serve. A place where nothing is may become a
    store.
    """
    if location.startswith("s3://"):
        # brings pyarrow, which a local store does not need
        from smoothsweep.orchestrator.store.remote import open_remote_store

        return open_remote_store(location)
    if "://" in location and not location.startswith("file://"):
        raise InputError(
            "--store: expected a directory on a file system that every node sees, or s3://bucket/prefix, "
            f"got {shown_uri(location)}"
        )
    store = local_store(location)
    if store.root.exists() and (got := _other_than_a_store(store.root)):
        raise InputError(f"--store {store.location}: expected a store, an empty folder or a new one, got {got}")
    store.refuse_newer()
    return replace(store, others=tuple(other_store(other, store) for other in links_of(store)))


def open_existing_store(location: str) -> Store:
    """As `open_store`, for a command that only reads. Raises InputError also where nothing is: a name mistyped,
    usually. An empty folder is a store of nothing."""
    store = open_store(location)
    if location.startswith("s3://") or store.root.exists():
        return store
    raise InputError(f"--store {store.location}: expected the store of an earlier run, got nothing there{REMEDY}")


def local_store(location: str) -> Store:
    """A store in a folder, whether it is there or not, without those that it reads through."""
    return Store(root=Path(location.removeprefix("file://")).expanduser().resolve())


def _other_than_a_store(root: Path) -> str | None:
    """What lies there, in words; None for an empty folder, and for one that has the version file or what the stores
    before that file had."""
    if not root.is_dir():
        return "a file"
    try:
        held = sorted(name for name in os.listdir(root) if not name.startswith(".") and name not in _OF_THE_DISK)
    except OSError:  # not to be listed by this user: who reads or writes there is told of it then
        return None
    if not held or any(name in MARKS or name in TASKS for name in held):
        return None
    return f"a folder of other things ({shortened(held[0])}{', ...' if len(held) > 1 else ''})"


def links_of(store: Store) -> list[str]:
    """Folders of the stores that this one reads through, in order. Raises InputError for a damaged list."""
    if (content := store.read(LINKS_FILE)) is None:
        return []
    try:
        named = json.loads(content)["stores"]
        if not isinstance(named, list) or not all(isinstance(path, str) for path in named):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        path = store.root / LINKS_FILE
        raise InputError(f"{path}: expected the list of linked stores, got something else; remove the file") from None
    return named


def write_links(store: Store, locations: Iterable[str]) -> None:
    """Replace the list of stores that this one reads through."""
    store.write(LINKS_FILE, json.dumps({"stores": list(locations)}, indent=1).encode())


def other_store(location: str, own: Store) -> Store:
    """A store that is to be read through. Raises InputError where there is none, or one that cannot serve."""
    store = replace(local_store(location), is_lent=True)
    if not store.root.is_dir():
        got = "a file" if store.root.exists() else "nothing there"
        raise InputError(
            f"linked store {store.root}: expected the store of an earlier run, got {got}; "
            f"`smoothsweep store unlink {store.root} --store {own.location}` goes on without it"
        )
    if store.root == own.root:
        raise InputError(f"linked store {store.root}: expected another store than --store, got the same")
    store.refuse_newer()
    return store
