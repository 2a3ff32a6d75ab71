"""A MATLAB file of version 5 from outside: measured as it decompresses before scipy makes arrays of it."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scipy.io

from smoothsweep.core.readers.files import MIB, read_whole

_HEADER, _TAG, _COMPRESSED = 128, 8, 15
_MOST_DECOMPRESSED = 256 * MIB


def read_matlab(path: Path, names: Sequence[str], *, most_bytes: int) -> dict[str, Any]:
    """The variables of these names. Raises InputError for a file of more than `most_bytes`, which is not read; for a
    damaged one, or one that decompresses to too much, whatever scipy raises or ValueError."""
    content = read_whole(path, most_bytes=most_bytes)
    _check_elements(content)
    return scipy.io.loadmat(io.BytesIO(content), variable_names=names)


def _check_elements(content: bytes) -> None:
    at, decompressed = _HEADER, 0
    order = ">" if content[126:128] == b"MI" else "<"
    while at + _TAG <= len(content):
        kind, length = struct.unpack_from(f"{order}II", content, at)
        if kind == _COMPRESSED:
            stream, left = zlib.decompressobj(), content[at + _TAG : at + _TAG + length]
            while left and not stream.eof:
                decompressed += len(stream.decompress(left, MIB))
                left = stream.unconsumed_tail
                if decompressed > _MOST_DECOMPRESSED:
                    raise ValueError(f"more than {_MOST_DECOMPRESSED} bytes when decompressed")
        at += _TAG + length
