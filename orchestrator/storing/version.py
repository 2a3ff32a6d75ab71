"""Which format a store is in: a store of a newer smoothsweep is refused before anything in it is touched."""

from __future__ import annotations

import json

from core.errors import InputError

VERSION_FILE = "store.json"
VERSION = 1  # a store without the file is older than the file and of version 1


def version_note() -> bytes:
    return json.dumps({"format": VERSION}).encode()


def refuse_other_versions(content: bytes | None, where: str) -> None:
    """content: of the store's version file, None if there is none. Raises InputError for a format we do not know."""
    if content is None:
        return
    try:
        got = json.loads(content)["format"]
    except (ValueError, KeyError, TypeError):
        got = " ".join(content[:60].decode(errors="replace").split())
    if type(got) is not int or not 1 <= got <= VERSION:
        raise InputError(
            f"--store {where}: expected a store of format {VERSION} in {VERSION_FILE}, got {got!r}; "
            "a newer smoothsweep reads newer formats"
        )
