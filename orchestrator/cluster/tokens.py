"""The token of a run: a file that its owner alone can read, locked while the run lives, gone when it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.cluster import interrupts

PREFIX = "smoothsweep-ray-"  # of a folder of its own; then the driver's process number
TOKEN = "token"


def live_runs() -> list[tuple[int, Path]]:
    """The runs of this user with a Ray of their own on this machine: the driver's process number, the token's file."""
    return [(_driver(folder), folder / TOKEN) for folder in _folders() if _is_held(folder / TOKEN)]


@contextlib.contextmanager
def new_token() -> Iterator[Path]:
    """A new token in a folder of its own, for its owner alone; locked for as long as this process uses it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    interrupts.remove_at_the_end(folder)
    try:
        descriptor = os.open(folder / TOKEN, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(secrets.token_hex(32))
            file.flush()
            yield folder / TOKEN
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_away() -> None:
    """Remove the tokens of drivers that were killed."""
    for folder in _folders():
        if not _is_held(folder / TOKEN) and not psutil.pid_exists(_driver(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def _folders() -> Iterator[Path]:
    """What runs of this user have made in the temporary folder, where anybody can make anything."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with contextlib.suppress(OSError, ValueError):
            if _driver(folder) and folder.lstat().st_uid == os.getuid() and folder.is_dir():
                yield folder


def _driver(folder: Path) -> int:
    return int(folder.name.removeprefix(PREFIX).split("-")[0])


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
