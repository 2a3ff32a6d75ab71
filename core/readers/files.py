"""Files and archives from outside: regular ones, of a size that is known before anything is read."""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened

MIB = 2**20
MOST_TEXT = 128 * MIB
"""Bytes of the published lists of pictures; CelebA's largest has 27 MB."""
MOST_BYTES = 64 * 2**30  # of a model or an archive
MOST_MEMBERS = 20_000
MOST_DIRECTORY = 16 * MIB  # bytes of an archive's list of members
MOST_UNPACKED = 64 * MIB
"""Bytes of one member that is read as a whole, and of all compressed ones together: texts, never weights."""
_ERRORS = (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError)
# zipfile says NotImplementedError of a compression that it does not know, RuntimeError of an encrypted member


def open_regular(path: Path) -> BinaryIO:
    """The file opened to read its bytes. Raises InputError for what is no regular file, OSError where it cannot be.

    A named pipe is refused, not waited for.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    # Without blocking: opening a named pipe would wait for its writer.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: expected a regular file")
    return descriptor


def pieces_of(path: Path, *, most_bytes: int) -> Iterator[bytes]:
    """All bytes of the file, at most `most_bytes`, a mebibyte at a time.

    Raises InputError, one line naming the file, for a larger one, of which nothing is read, for one that grows beyond
    it meanwhile, and for what is no regular file; OSError where it cannot be read.
    """
    with open_regular(path) as file:
        size, got = os.fstat(file.fileno()).st_size, 0
        while size <= most_bytes and (piece := file.read(min(MIB, most_bytes + 1 - got))):
            got += len(piece)
            if got > most_bytes:
                break
            yield piece
    if max(size, got) > most_bytes:
        raise InputError(f"{path}: expected {too_large(most_bytes, max(size, got))}")


def read_whole(path: Path, *, most_bytes: int) -> bytes:
    """All bytes of the file at once. Raises as `pieces_of`."""
    return b"".join(pieces_of(path, most_bytes=most_bytes))


def read_text(path: Path, *, most_bytes: int = MOST_TEXT) -> str:
    """The text of a file in UTF-8. Raises as `pieces_of`, and UnicodeDecodeError for what is no text."""
    return read_whole(path, most_bytes=most_bytes).decode("utf-8")


def why_unread(error: Exception) -> str:
    """Why a file could not be read, in words that are not Python's: what a message says it got."""
    match error:
        case json.JSONDecodeError():
            return f"text that is no JSON from line {error.lineno}, column {error.colno} on"
        case UnicodeDecodeError():
            return f"bytes that are no text in UTF-8 from place {error.start} on"
        case UnicodeEncodeError():
            return f"half a character (a lone surrogate) at place {error.start}"
        case RecursionError():
            return "nested too deeply"
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200]


def too_large(most_bytes: int, got: int) -> str:
    """What was expected and what came, for a message."""
    return f"at most {most_bytes / MIB:,.0f} MiB, got {got / MIB:,.1f} MiB"


class Members:
    """The members of an archive, by their names without its folder."""

    def __init__(self, archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], where: str) -> None:
        self._archive, self._entries, self._where = archive, entries, where

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def read(self, name: str) -> bytes:
        """A member of at most `MOST_UNPACKED` bytes. Raises InputError for a larger one."""
        if self._entries[name].file_size > MOST_UNPACKED:
            most = f"the {MOST_UNPACKED} bytes that are looked at"
            raise InputError(f"{self._where}, got a larger member {name} than {most}")
        return self._archive.read(self._entries[name])

    def pieces(self, name: str) -> Iterator[bytes]:
        """All bytes of a member, a mebibyte at a time. Raises InputError where the list says another size."""
        try:
            with self._archive.open(self._entries[name]) as file:
                while piece := file.read(MIB):
                    yield piece
        except _ERRORS as error:
            raise InputError(f"{self._where}, got: {why_unread(error)}") from None


def names_of(path: Path, where: str) -> list[str] | None:
    """The names of an archive's members, None of another file. where: how a line begins.

    Raises InputError for a list of members that is too long to be read and for what is no regular file, OSError.
    """
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            return None
        try:
            with _opened(file, where) as archive:
                return archive.namelist()
        except InputError:
            raise
        except _ERRORS:
            return None


@contextmanager
def members_of(path: Path, what: str) -> Generator[Members]:
    """An archive's members, none of them read yet. Raises InputError, one line, for what is no such archive."""
    where = f"{path}: expected {what}"
    try:
        with open_regular(path) as file, _opened(file, where) as archive:
            yield Members(archive, _named(archive.infolist(), os.fstat(file.fileno()).st_size, where), where)
    except InputError:
        raise
    except _ERRORS as error:
        raise InputError(f"{where}, got: {_why_no_archive(error, path)}") from None


def _opened(file: BinaryIO, where: str) -> zipfile.ZipFile:
    """Raises InputError where its list of members would take too much."""
    internals: Any = zipfile  # no part of its stubs: what zipfile itself will go by
    end = internals._EndRecData(file)
    if end is not None and end[internals._ECD_SIZE] > MOST_DIRECTORY:
        raise InputError(f"{where} of at most {MOST_MEMBERS} members, got a list of {end[internals._ECD_SIZE]} bytes")
    return zipfile.ZipFile(file)


def _why_no_archive(error: Exception, path: Path) -> str:
    if isinstance(error, zipfile.BadZipFile) and not zipfile.is_zipfile(path):
        with open_regular(path) as file:
            first = file.read(4)
        if first == b"PK\3\4":  # how an archive begins: with its first member
            return "an archive that was cut off: its end, which lists its members, is missing; copy it again"
        return "a file that is no zip archive" if first else "an empty file"
    return why_unread(error)


def _named(entries: list[zipfile.ZipInfo], size: int, where: str) -> dict[str, zipfile.ZipInfo]:
    """The members by their names without the folder. size: of the archive, in bytes."""
    if size > MOST_BYTES:
        raise InputError(f"{where} of at most {MOST_BYTES} bytes, got a larger file")
    if len(entries) > MOST_MEMBERS:
        raise InputError(f"{where} of at most {MOST_MEMBERS} members, got {len(entries)}")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise InputError(f"{where}, got an archive whose members are compressed in another way than by deflate")
    stored = sum(entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED)
    unpacked = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if unpacked > MOST_UNPACKED or stored > size:  # members that lie in one another would be read again and again
        raise InputError(f"{where}, got an archive that unpacks to too much")
    roots = {entry.filename.partition("/")[0] for entry in entries}
    named = {entry.filename.partition("/")[2]: entry for entry in entries}
    if len(roots) > 1:
        listed = ", ".join(sorted(map(shortened, roots))[:2])
        raise InputError(f"{where}, got an archive of several folders or files ({listed}), not of one folder")
    if not roots or "" in named or len(named) != len(entries):
        raise InputError(f"{where}, got an archive without a folder of its own, or with a name twice")
    return named
