"""What this machine keeps for itself: the folder for caches, and locks between its processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "SMOOTHSWEEP_CACHE"


def cache_folder() -> Path:
    """SMOOTHSWEEP_CACHE, else XDG_CACHE_HOME/smoothsweep, else ~/.cache/smoothsweep."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothsweep"
    return Path(os.environ.get(CACHE_VARIABLE) or default).expanduser().resolve()


@contextmanager
def locked(root: Path, name: str) -> Iterator[None]:
    """One process of this machine at a time; a killed holder lets go."""
    folder = root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
