"""Archives from outside: what one holds; of no member are bytes read before its size is known to be within bounds."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import open_regular, why_unread
from smoothsweep.core.text import shortened

MOST_BYTES = 64 * 2**30
MOST_MEMBERS = 20_000
MOST_DIRECTORY = 16 * 2**20  # bytes of the list of members
MOST_TEXT = 64 * 2**20
"""Bytes of one member that is read as a whole, and of all compressed ones together: texts, never weights."""
_ERRORS = (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError)
# zipfile says NotImplementedError of a compression that it does not know, RuntimeError of an encrypted member
_MEMBER = b"PK\3\4"
"""How an archive begins: with its first member."""


class Members:
    """The members of an archive, by their names without its folder."""

    def __init__(self, archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], where: str) -> None:
        self._archive, self._entries, self._where = archive, entries, where

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def read(self, name: str) -> bytes:
        """A member of at most `MOST_TEXT` bytes. Raises InputError for a larger one."""
        if self._entries[name].file_size > MOST_TEXT:
            raise InputError(f"{self._where}, got a larger member {name} than the {MOST_TEXT} bytes that are looked at")
        return self._archive.read(self._entries[name])

    def size(self, name: str) -> int:
        """Bytes of a member, as the archive's list says."""
        return self._entries[name].file_size

    def pieces(self, name: str) -> Iterator[bytes]:
        """All bytes of a member, a mebibyte at a time. Raises InputError where the list says another size."""
        left = self._entries[name].file_size
        try:
            with self._archive.open(self._entries[name]) as file:
                while piece := file.read(min(2**20, left + 1)):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
        except _ERRORS as error:
            raise InputError(f"{self._where}, got: {why_unread(error)}") from None
        if left:
            raise InputError(f"{self._where}, got one whose member {name} has another size than its list says")


def names_of(path: Path, where: str) -> list[str] | None:
    """The names of an archive's members, None of another file. where: how a line begins.

    Raises InputError for a list of members that is too long to be read and for what is no regular file, OSError.
    """
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            return None
        _check_directory(file, where)
        try:
            with zipfile.ZipFile(file) as archive:
                return archive.namelist()
        except _ERRORS:
            return None


def _check_directory(file: BinaryIO, where: str) -> None:
    internals: Any = zipfile  # no part of its stubs: what zipfile itself will go by
    end = internals._EndRecData(file)
    if end is not None and end[internals._ECD_SIZE] > MOST_DIRECTORY:
        raise InputError(f"{where} of at most {MOST_MEMBERS} members, got a list of {end[internals._ECD_SIZE]} bytes")


@contextmanager
def members_of(path: Path, what: str) -> Generator[Members]:
    """An archive's members, none of them read yet. Raises InputError, one line, for what is no such archive."""
    where = f"{path}: expected {what}"
    try:
        with open_regular(path) as file:
            _check_directory(file, where)
            with zipfile.ZipFile(file) as archive:
                yield Members(archive, _named(archive.infolist(), os.fstat(file.fileno()).st_size, where), where)
    except InputError:
        raise
    except _ERRORS as error:
        raise InputError(f"{where}, got: {_why(error, path)}") from None


def _why(error: Exception, path: Path) -> str:
    """Why an archive could not be read: that it is none, that its end is missing, or what zipfile says."""
    if isinstance(error, zipfile.BadZipFile) and not zipfile.is_zipfile(path):
        with open_regular(path) as file:
            first = file.read(len(_MEMBER))
        if first == _MEMBER:
            return "an archive that was cut off: its end, which lists its members, is missing; copy it again"
        return "a file that is no zip archive" if first else "an empty file"
    return why_unread(error)


def _named(entries: list[zipfile.ZipInfo], size: int, where: str) -> dict[str, zipfile.ZipInfo]:
    """The members by their names without the folder."""
    _check_sizes(entries, size, where)
    roots = {entry.filename.partition("/")[0] for entry in entries}
    named = {entry.filename.partition("/")[2]: entry for entry in entries}
    if len(roots) > 1:
        first, second, *others = sorted(map(shortened, roots))
        listed = f"{first}, {second}{', ...' if others else ''}"
        raise InputError(f"{where}, got an archive of several folders or files ({listed}), not of one folder")
    if not roots or "" in named:
        raise InputError(f"{where}, got an archive without a folder that holds its members")
    if len(named) != len(entries):
        raise InputError(f"{where}, got an archive with a name twice")
    return named


def _check_sizes(entries: list[zipfile.ZipInfo], size: int, where: str) -> None:
    if size > MOST_BYTES:
        raise InputError(f"{where} of at most {MOST_BYTES} bytes, got a larger file")
    if len(entries) > MOST_MEMBERS:
        raise InputError(f"{where} of at most {MOST_MEMBERS} members, got {len(entries)}")
    stored = sum(entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED)
    inflated = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise InputError(f"{where}, got an archive whose members are compressed in another way than by deflate")
    if inflated > MOST_TEXT or stored > size:  # members that lie in one another would be read again and again
        raise InputError(f"{where}, got an archive that unpacks to too much")


def read_members(path: Path, sizes: Mapping[str, int], what: str) -> dict[str, bytes]:
    """These members of an archive as a whole. sizes: full name -> the bytes that each must have.

    Raises InputError, one line, for what is no archive, and for a member that is missing or of another size.
    """
    where = f"{path}: expected {what}"
    try:
        with open_regular(path) as file:
            _check_directory(file, where)
            with zipfile.ZipFile(file) as archive:
                return {name: _whole_member(archive, name, size, where) for name, size in sizes.items()}
    except InputError:
        raise
    except _ERRORS as error:
        raise InputError(f"{where}, got: {_why(error, path)}") from None


def _whole_member(archive: zipfile.ZipFile, name: str, size: int, where: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise InputError(f"{where}, got one without {name}") from None
    if entry.file_size != size:
        raise InputError(f"{where}, got one whose {name} has {entry.file_size} bytes instead of {size}")
    with archive.open(entry) as file:
        return file.read(size + 1)
