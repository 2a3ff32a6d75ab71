"""Which format a store is in: a store of a newer smoothsweep is refused before anything in it is touched."""

from __future__ import annotations

import json
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import move, write_file
from smoothsweep.orchestrator.store.common.artifacts import aside_name, report_damage

VERSION_FILE = "store.json"
VERSION = 2
SEALED_FROM = 2  # every manifest of such a store has a seal
UNNOTED = 1  # a store without the file is older than the file, or has lost it: seals are checked where there are any


def version_note(*, empty: bool) -> bytes:
    """The note for a store without one. empty: it holds no artifact, so that all it ever has will be of our format."""
    return json.dumps({"format": VERSION if empty else UNNOTED}).encode()


def version_of(content: bytes | None) -> int:
    """The format that a store's version file tells; None, and a file that tells none, count as the first."""
    return _format(content) or UNNOTED


def refuse_other_versions(content: bytes | None, where: str) -> None:
    """content: of the store's version file, None if there is none. Raises InputError for a format newer than ours."""
    got = _format(content)
    if content is not None and got is None:
        report_damage(f"--store {where}: {VERSION_FILE} is unreadable; the store is taken for one of format {UNNOTED}")
    if got is not None and got > VERSION:
        raise InputError(
            f"--store {where}: expected a store of format {VERSION} or older in {VERSION_FILE}, got {got}; "
            "a newer smoothsweep reads newer formats"
        )


def is_unreadable(content: bytes | None) -> bool:
    """Whether there is no version file, or none that tells a format."""
    return _format(content) is None


def heal_version(path: Path, *, empty: bool) -> None:
    """Write the version file at `path` where there is none, or none that can be read; that one is set aside."""
    content = path.read_bytes() if path.is_file() else None
    if not is_unreadable(content):
        return
    if content is not None:
        move(path, path.with_name(aside_name(path.name)))
    write_file(path, version_note(empty=empty))


def _format(content: bytes | None) -> int | None:
    try:
        got = json.loads(content or b"")["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return got if type(got) is int and got >= 1 else None
