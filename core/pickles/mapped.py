"""A foreign file in memory without reading it: mapped, and only if it is a regular one."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import open_regular


def map_file(path: Path, *, most_bytes: int) -> memoryview:
    """The file's bytes, read-only; it must not be shortened while they are used.

    Raises InputError for what is no regular file of 1 to `most_bytes` bytes, OSError where it cannot be opened.
    """
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        if not 0 < size <= most_bytes:
            raise InputError(f"{path}: expected a file of 1 to {most_bytes} bytes, got {size}")
        return memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ))
