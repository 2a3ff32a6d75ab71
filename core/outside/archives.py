"""Archives of programs, read by us and written anew: torch opens what was looked at, and nothing else.

Readers of zip files differ in what they take where an archive contradicts itself. A new archive of the members that
were checked leaves nothing to differ about.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from core.errors import InputError

MOST_BYTES = 8 * 2**30
MOST_MEMBERS = 20_000
MOST_INFLATED = 64 * 2**20  # of all compressed members together: texts, never weights


def read_members(path: Path, what: str) -> dict[str, bytes]:
    """Name without the archive's own folder -> bytes. Raises InputError, one line, for what is no such archive."""
    where = f"{path}: expected {what}"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{where} of at most {MOST_BYTES} bytes, got a larger file")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_sizes(entries, where)
            roots = {entry.filename.partition("/")[0] for entry in entries}
            members = {entry.filename.partition("/")[2]: archive.read(entry) for entry in entries}
    # zipfile says NotImplementedError of a compression that it does not know, RuntimeError of an encrypted member
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{where}, got: {' '.join(str(error).split())[:200]}") from None
    if len(roots) != 1 or len(members) != len(entries) or "" in members:
        raise InputError(f"{where}, got an archive of several folders, or with a name twice")
    return members


def _check_sizes(entries: list[zipfile.ZipInfo], where: str) -> None:
    if len(entries) > MOST_MEMBERS:
        raise InputError(f"{where} of at most {MOST_MEMBERS} members, got {len(entries)}")
    inflated = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if inflated > MOST_INFLATED or sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise InputError(f"{where}, got an archive that unpacks to too much")


def as_archive(members: Mapping[str, bytes], root: str = "program") -> io.BytesIO:
    """A new archive of these members, uncompressed, in one folder; the same bytes for the same members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}"), content)
    buffer.seek(0)
    return buffer


def text_of(content: bytes, where: str) -> str:
    """Raises InputError for what is no UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: expected text, got other bytes") from None
