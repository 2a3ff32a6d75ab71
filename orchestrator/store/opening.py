"""A store by its location."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.version import refuse_other_versions
from smoothsweep.orchestrator.store.linked import with_links
from smoothsweep.orchestrator.store.local import LocalStore


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
    """As `open_store`, for whoever only reads. Raises InputError where there is no store: a name mistyped, usually."""
    store = open_store(location)
    if not location.startswith("s3://") and not store.root.is_dir():
        got = "a file" if store.root.exists() else "nothing there"
        raise InputError(f"--store {store.location}: expected the store of an earlier run, got {got}")
    return store
