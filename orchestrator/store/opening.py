"""A store by its location."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.version import VERSION_FILE, refuse_other_versions
from smoothsweep.orchestrator.store.linked import with_links
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.tasks.registry import TASKS

MARKS = (VERSION_FILE, "sweeps", "imported", "damaged", "mlflow.db")
"""Names in a store, beside the folders of its stages."""


def open_store(location: str) -> Store:
    """A store at a path, a file:// URL or s3://bucket/prefix.

    Raises InputError for another kind of URL, a store of a newer format, and a bucket that cannot be read.
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
    refuse_other_versions(store.version_note(), store.location)
    return with_links(store)


def open_existing_store(location: str) -> Store:
    """As `open_store`, for a command that only reads. Raises InputError where there is no store: a name mistyped,
    usually. An empty folder is a store of nothing; one that holds other things alone is none."""
    store = open_store(location)
    if location.startswith("s3://") or _is_store(store.root):
        return store
    got = "another folder" if store.root.is_dir() else "a file" if store.root.exists() else "nothing there"
    raise InputError(f"--store {store.location}: expected the store of an earlier run, got {got}")


def _is_store(root: Path) -> bool:
    """Whether the folder is empty, has the version file, or what the stores before that file had."""
    if not root.is_dir():
        return False
    held = [path for path in root.iterdir() if not path.name.startswith(".")]
    return not held or any(path.name in MARKS or path.name in TASKS for path in held)
