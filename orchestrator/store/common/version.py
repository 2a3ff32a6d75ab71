"""Which format a store is in: a store of a newer smoothsweep is refused before anything in it is touched."""

from __future__ import annotations

import json
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import move, write_file
from smoothsweep.orchestrator.store.common.artifacts import aside_name, report_damage

VERSION_FILE = "store.json"
VERSION = 2


def version_note() -> bytes:
    """The content of a new version file."""
    return json.dumps({"format": VERSION}).encode()


def refuse_other_versions(content: bytes | None, where: str) -> None:
    """Raise InputError for a format newer than ours. content: of the version file, None if there is none."""
    got = _format(content)
    if content is not None and got is None:
        report_damage(f"--store {where}: {VERSION_FILE} is unreadable; the next run writes it anew")
    if got is not None and got > VERSION:
        raise InputError(
            f"--store {where}: expected a store of format {VERSION} or older in {VERSION_FILE}, got {got}; "
            "a newer smoothsweep reads newer formats"
        )


def is_unreadable(content: bytes | None) -> bool:
    """Whether the version file is missing or states no format."""
    return _format(content) is None


def heal_version(path: Path) -> None:
    """Write the version file at `path` where it is missing or unreadable. An unreadable one is set aside."""
    content = path.read_bytes() if path.is_file() else None
    if not is_unreadable(content):
        return
    if content is not None:
        move(path, path.with_name(aside_name(path.name)))
    write_file(path, version_note())


def _format(content: bytes | None) -> int | None:
    try:
        got = json.loads(content or b"")["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return got if type(got) is int and got >= 1 else None
