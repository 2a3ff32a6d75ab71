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
UNNOTED = 1  # a store without the file: it is older than the file, or lost it. Its seals are checked where they exist


def version_note(*, empty: bool) -> bytes:
    """The content of a new version file. empty: the store holds no artifact yet, so all of them will be sealed."""
    return json.dumps({"format": VERSION if empty else UNNOTED}).encode()


def version_of(content: bytes | None) -> int:
    """The format in a store's version file. A missing or unreadable file counts as the first format."""
    return _format(content) or UNNOTED


def refuse_other_versions(content: bytes | None, where: str) -> None:
    """Raise InputError for a format newer than ours. content: of the version file, None if there is none."""
    got = _format(content)
    if content is not None and got is None:
        report_damage(f"--store {where}: {VERSION_FILE} is unreadable; the store is read as format {UNNOTED}")
    if got is not None and got > VERSION:
        raise InputError(
            f"--store {where}: expected a store of format {VERSION} or older in {VERSION_FILE}, got {got}; "
            "a newer smoothsweep reads newer formats"
        )


def is_unreadable(content: bytes | None) -> bool:
    """Whether the version file is missing or states no format."""
    return _format(content) is None


def heal_version(path: Path, *, empty: bool) -> None:
    """Write the version file at `path` where it is missing or unreadable. An unreadable one is set aside."""
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
