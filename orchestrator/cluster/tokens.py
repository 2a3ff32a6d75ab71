"""The token of a run: a file that its owner alone can read, locked while the run lives, gone when it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Generator
from pathlib import Path

import psutil

from smoothsweep.orchestrator.cluster.run_folder import folders, new_folder, remove

TOKEN = "token"


@contextlib.contextmanager
def new_token(content: str | None = None) -> Generator[Path]:
    """A token in a folder of its own, for its owner alone; locked for as long as this process uses it.

    content: of a cluster that this node joins; None for a new token.
    """
    with new_folder() as folder:
        descriptor = os.open(folder / TOKEN, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(content or secrets.token_hex(32))
            file.flush()
            yield folder / TOKEN


def sweep_away() -> None:
    """Remove what drivers that were killed have left: their tokens, and the files of their Ray."""
    for driver, folder in list(folders()):
        if not _is_held(folder / TOKEN) and not psutil.pid_exists(driver):
            remove(folder)


def _is_held(path: Path) -> bool:
    """Whether the process that made the file lives: process numbers come again, and differ between containers."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
