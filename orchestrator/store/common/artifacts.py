"""One artifact's folder: whether it is there and whole, and the place where a damaged one is kept.

<store>/damaged/<stage>/<fingerprint>.<random>/     set aside, not deleted: a user may want to look
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.files import NotPlainError, move, plain_content
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common import verifying
from smoothsweep.orchestrator.store.common.sealing import Damage, read_manifest
from smoothsweep.tasks.stage_names import stage_label

MANIFEST = "manifest.json"
DAMAGED = "damaged"

_whole: dict[Path, tuple[int, ...]] = {}  # manifest -> as it was when its artifact was whole
_told: set[str] = set()


def read_artifact(folder: Path) -> dict[str, Any]:
    """The manifest of the finished artifact in `folder`.

    Raises FileNotFoundError if there is no manifest, and Damage if it is wrong, or a file of the artifact is missing or
    has another size. Contents are another matter: `verifying.verify` reads them.
    """
    if folder.is_symlink():
        raise Damage("it is a link")
    manifest = read_manifest(_content(folder), folder.parent.name, folder.name)
    sizes = verifying.sizes(folder, manifest["files"])
    for name, size in manifest.get("sizes", {}).items():
        if sizes.get(name) != size:
            raise Damage(f"{name} has {sizes.get(name)} bytes instead of {size}")
    return manifest


def is_whole(folder: Path) -> bool:
    """Whether a finished artifact lies in `folder`, by the looks of `read_artifact`. Says so once if it is damaged.

    It is looked at again when its manifest has changed.
    """
    try:
        status = os.stat(folder / MANIFEST)
    except OSError:
        return False
    signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    if _whole.get(folder) == signature:
        return True
    try:
        read_artifact(folder)
    except FileNotFoundError:
        return False
    except Damage as damage:
        report_damage(f"{_label(folder)}: {damage}; it does not count, and a run makes it again")
        return False
    _whole[folder] = signature
    return True


def set_aside(folder: Path) -> Path | None:
    """Rename a damaged artifact into the store's folder for those; None if another process has done so meanwhile."""
    _whole.pop(folder, None)
    verifying.forget(folder)
    place = folder.parent.parent / DAMAGED / folder.parent.name / f"{folder.name}.{uuid.uuid4().hex[:8]}"
    try:
        move(folder, place)
    except FileNotFoundError:
        return None
    return place


def aside_name(name: str) -> str:
    """A new name for a damaged note: beside it, and out of everybody's way."""
    return f"{name}.damaged-{uuid.uuid4().hex[:8]}"


def give_up(folder: Path, damage: Damage) -> ArtifactDamaged:
    """Set a damaged artifact aside; the error that says so. Raises InputError where it cannot be moved."""
    try:
        place = set_aside(folder)
    except OSError as error:
        raise InputError(f"{folder}: {damage}, and it cannot be set aside: {error.strerror}") from None
    where = f"it is set aside in {place} and made again" if place else "it is made again"
    return ArtifactDamaged(f"{_label(folder)}: {damage}; {where}")


def report_damage(line: str) -> None:
    """Say something about the store on stderr, once per process."""
    if line not in _told:
        _told.add(line)
        screen.err(f"smoothsweep: {line}")


def _label(folder: Path) -> str:
    return stage_label(folder.parent.name, folder.name)


def _content(folder: Path) -> bytes:
    try:
        return plain_content(folder / MANIFEST)
    except NotPlainError:
        raise Damage("its manifest is no plain file") from None


def complete(stage: Stage, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with what every reader relies on; what the maker says of it stands."""
    inputs = {role: {"stage": source.name, "fingerprint": source.fingerprint} for role, source in stage.inputs.items()}
    unsaid = {"config": dict(stage.config), "inputs": inputs, "seconds": 0.0, "finished_at": 0.0, "code_version": ""}
    return {**unsaid, **manifest, "stage": stage.name, "fingerprint": stage.fingerprint}


def with_checksums(draft: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of what lies in a draft: with the size and the SHA-256 of every file."""
    names = sorted(path.name for path in draft.iterdir())
    files = {name: verifying.checksum(draft / name) for name in names}
    return {**manifest, "files": files, "sizes": verifying.sizes(draft, names)}
