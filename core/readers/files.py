"""A file from outside, as a whole or opened: a regular one, of a size that is known before anything is read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from smoothsweep.core.errors import InputError

MIB = 2**20
MOST_TEXT = 128 * MIB
"""Bytes of the published lists of pictures; CelebA's largest has 27 MB."""


def open_regular(path: Path) -> BinaryIO:
    """The file opened to read its bytes. Raises InputError for what is no regular file, OSError where it cannot be.

    A named pipe is refused, not waited for.
    """
    return open(path, "rb", opener=_open_regular)


def read_whole(path: Path, *, most_bytes: int) -> bytes:
    """All bytes of the file, at most `most_bytes`.

    Raises InputError, one line naming the file, for a larger one, of which nothing is read, and for what is no regular
    file; OSError where it cannot be read.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most_bytes + 1) if size <= most_bytes else b""
    if size > most_bytes or len(content) > most_bytes:
        raise InputError(f"{path}: expected {too_large(most_bytes, max(size, len(content)))}")
    return content


def pieces_of(path: Path, *, most_bytes: int) -> Iterator[bytes]:
    """All bytes of the file a mebibyte at a time, for what need not be in memory at once. Raises as `read_whole`, also
    for a file that grows beyond `most_bytes` while it is read."""
    with open_regular(path) as file:
        size, got = os.fstat(file.fileno()).st_size, 0
        while size <= most_bytes and (piece := file.read(min(MIB, most_bytes + 1 - got))):
            got += len(piece)
            if got > most_bytes:
                break
            yield piece
    if size > most_bytes or got > most_bytes:
        raise InputError(f"{path}: expected {too_large(most_bytes, max(size, got))}")


def read_text(path: Path, *, most_bytes: int = MOST_TEXT) -> str:
    """The text of a file in UTF-8. Raises as `read_whole`, and UnicodeDecodeError for what is no text."""
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


def _open_regular(path: str, flags: int) -> int:
    # Without blocking: opening a named pipe would wait for its writer.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: expected a regular file")
    return descriptor
