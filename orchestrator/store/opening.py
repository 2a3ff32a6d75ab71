"""A store by its location."""

from __future__ import annotations

import os
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.version import VERSION_FILE, refuse_other_versions
from smoothsweep.orchestrator.store.linked import with_links
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.tasks.registry import TASKS

MARKS = (VERSION_FILE, "sweeps", "imported", "damaged", "mlflow.db")
"""Names in a store, beside the folders of its stages."""

_OF_THE_DISK = ("lost+found",)
"""What a new disk has that was mounted to become a store."""


REMEDY = "; smoothsweep run SWEEP.yaml makes one, --store says where another is"
"""What to do where no run has been."""


def open_store(location: str) -> Store:
    """A store at a path, a file:// URL or s3://bucket/prefix.

    Raises InputError for another kind of URL, a file, a folder that holds other things alone, a store of a newer
    format, and a bucket that cannot be read. A place where nothing is may become a store.
    """
    if location.startswith("s3://"):
        # brings pyarrow, which a local store does not need
        from smoothsweep.orchestrator.store.remote.store import open_remote_store

        return open_remote_store(location)
    if "://" in location and not location.startswith("file://"):
        raise InputError(
            "--store: expected a directory on a file system that every node sees, or s3://bucket/prefix, "
            f"got {shown_uri(location)}"
        )
    store = LocalStore(root=Path(location.removeprefix("file://")).expanduser().resolve())
    if store.root.exists() and (got := _other_than_a_store(store.root)):
        raise InputError(f"--store {store.location}: expected a store, an empty folder or a new one, got {got}")
    refuse_other_versions(store.version_note(), store.location)
    return with_links(store)


def open_existing_store(location: str) -> Store:
    """As `open_store`, for a command that only reads. Raises InputError also where nothing is: a name mistyped,
    usually. An empty folder is a store of nothing."""
    store = open_store(location)
    if location.startswith("s3://") or store.root.exists():
        return store
    raise InputError(f"--store {store.location}: expected the store of an earlier run, got nothing there{REMEDY}")


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
