"""What this machine keeps for itself: the folder for caches, and locks between its processes."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CACHE_VARIABLE = "SMOOTHSWEEP_CACHE"


def cache_folder() -> Path:
    """SMOOTHSWEEP_CACHE, else XDG_CACHE_HOME/smoothsweep, else ~/.cache/smoothsweep.

    Where neither variable is set and the home cannot be written, or there is none: a folder of this user for
    temporary files.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser().resolve()
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "smoothsweep"
    except RuntimeError:  # no home at all
        return _temporary()
    return folder if _can_be_written(folder) else _temporary()


@contextmanager
def locked(root: Path, name: str) -> Generator[None]:
    """One process of this machine at a time; a killed holder lets go. A root that cannot be written is no obstacle."""
    try:
        file = _opened(root, name)
    except OSError:
        file = _opened(_temporary(), name)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(root: Path, name: str) -> IO[str]:
    folder = root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / name).open("w")


def _can_be_written(folder: Path) -> bool:
    """Whether the folder can be made or written. Makes nothing."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _temporary() -> Path:
    """A folder among the temporary files that no other user may read or prepare."""
    folder = Path(tempfile.gettempdir()) / f"smoothsweep-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:  # something else of that name
        return Path(tempfile.mkdtemp(prefix="smoothsweep-"))
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if private else Path(tempfile.mkdtemp(prefix="smoothsweep-"))
