"""Where everything lies below a remote store's prefix, who is writing it, what dead writers leave. After the prefix:

<stage>/<fingerprint>/manifest.json         names the attempt whose files make the artifact
files/<stage>/<fingerprint>/<attempt>/...   what that attempt made; <attempt> is its writer
damaged/<stage>/<fingerprint>.<random>/...  what was not what its manifest says, with that manifest
drafts/<stage>.<fingerprint>.<attempt>      there while an attempt uploads: what is to be swept if it dies
work/<stage>/<fingerprint>/...              what an unfinished stage keeps between attempts
sweeps/<name>/...                           state, notes and report of a sweep
store.json                                  the format's version
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress

from smoothsweep.core.writers import is_gone, writer_name
from smoothsweep.orchestrator.store.common.sealing import is_plain_name
from smoothsweep.orchestrator.store.remote.objects import Objects

DRAFTS = "drafts"
FOREIGN_DRAFT_S = 24 * 3600.0  # no upload takes that long: an attempt of a machine that is gone
_MANIFEST = "manifest.json"


def manifest_key(kind: str, fingerprint: str) -> str:
    return f"{kind}/{fingerprint}/{_MANIFEST}"


def files_key(kind: str, fingerprint: str) -> str:
    return f"files/{kind}/{fingerprint}"


def work_key(kind: str, fingerprint: str) -> str:
    return f"work/{kind}/{fingerprint}"


def draft_key(kind: str, fingerprint: str, attempt: str) -> str:
    return f"{DRAFTS}/{kind}.{fingerprint}.{attempt}"


def attempt_name() -> str:
    """Who writes, so that others can tell whether the writer lives."""
    return writer_name()


def set_artifact_aside(objects: Objects, kind: str, fingerprint: str) -> str:
    """Move a damaged artifact out of the way, its manifest first, so that none owns the rest. Returns its new place."""
    place, key = f"damaged/{kind}/{fingerprint}.{uuid.uuid4().hex[:8]}", manifest_key(kind, fingerprint)
    attempts = files_key(kind, fingerprint)
    with suppress(FileNotFoundError):  # another process is at it
        content = objects.read(key)
        objects.write(f"{place}/{_MANIFEST}", content)
        objects.delete([key])
        with suppress(ValueError, TypeError, KeyError):  # unreadable: all attempts are moved
            named = json.loads(content)["attempt"]
            attempts += f"/{named}" if is_plain_name(named) else ""
        objects.move_below(attempts, f"{place}/files")
    return place


def sweep_attempts(objects: Objects, kind: str, fingerprint: str) -> None:
    """Remove the files of attempts at a stage that its manifest does not name and no process is still uploading."""
    attempts = {listed.key.split("/")[0] for listed in objects.listed(files_key(kind, fingerprint))}
    if not attempts:
        return
    prefix = f"{kind}.{fingerprint}."  # drafts first: a writer puts the manifest before it removes its draft's mark
    keep = {item.key.removeprefix(prefix) for item in objects.listed(DRAFTS) if item.key.startswith(prefix)}
    with suppress(FileNotFoundError):
        try:
            keep.add(json.loads(objects.read(manifest_key(kind, fingerprint)))["attempt"])
        except (ValueError, TypeError, KeyError):  # damaged: its reader sets its files aside
            return
    for attempt in attempts - keep:
        objects.delete_below(f"{files_key(kind, fingerprint)}/{attempt}")


def sweep_drafts(objects: Objects) -> int:
    """Remove uploads of dead writers: of this machine, or begun more than a day ago elsewhere. Returns how many.

    What a killed multi-part upload left is no object and cannot be seen: a life-cycle rule of the bucket removes it
    (docs/cluster.md).
    """
    removed = 0
    for listed in objects.listed(DRAFTS):
        kind, fingerprint, attempt = listed.key.split(".", 2)
        if is_gone(attempt) or time.time() - listed.changed / 1e9 > FOREIGN_DRAFT_S:
            objects.delete([f"{DRAFTS}/{listed.key}"])
            sweep_attempts(objects, kind, fingerprint)
            removed += 1
    return removed
