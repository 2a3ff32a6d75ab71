"""A folder as a whole: its files, what they hold, and whether anything has changed since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from smoothsweep.core.errors import InputError


def tree_files(root: Path) -> Iterator[Path]:
    """Every visible file below `root`, in the order of names; links are followed.

    Raises InputError where a link leads back to a folder that was walked already.
    """
    seen: set[str] = set()
    for folder, subfolders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            raise InputError(f"{root}: expected every folder once, got {folder} again through a link")
        seen.add(real)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def tree_digest(root: Path) -> str:
    """SHA-256, hexadecimal, over relative names and contents of all visible files, whatever they are."""
    digest = hashlib.sha256()
    for file in tree_files(root):
        name = file.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
        with file.open("rb") as stream:
            digest.update(len(name).to_bytes(8, "little") + name)
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def path_state(path: Path) -> tuple[str, int]:
    """A digest of the place, size, inode and times of a file or of every file of a folder; and bytes in all.

    The time of the last change of an inode is among them: it moves with a rename too, whatever time a copy was given.
    """
    state, total = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")), 0
    for file in tree_files(path) if path.is_dir() else [path]:
        try:
            facts = os.stat(file)
            words = f"{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ctime_ns}\0{facts.st_ino}"
            total += facts.st_size
        except FileNotFoundError:  # a dangling link, or just removed: the reader reports it
            words = "nothing"
        state.update(f"{file}\0{words}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest(), total
