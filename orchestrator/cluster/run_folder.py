"""What every Ray of ours is started with, on a laptop and on a node of a batch job. Loads no Ray."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster import interrupts

SLOT = "trial_slot"  # Ray's resource by which a cluster states how many trials may be open at once
SLOTS_PER_CPU = 2
OBJECT_STORE_BYTES = 150 * 2**20  # tasks exchange paths and small rows; tensors go through the artifact store

OF_EVERY_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_oom_retries": "3",  # the default retries a task that never fits for ever
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "1",
}
"""Environment variables that Ray reads when it starts. What a user has set stays."""

NO_METRICS = {
    "RAY_enable_metrics_collection": "0",  # Prometheus' ports ask for no token
    "AUTOSCALER_METRIC_PORT": "-1",  # no port: these two have no switch, and say in their logs that they cannot listen
    "DASHBOARD_METRIC_PORT": "-1",
}
"""The same, of a Ray whose ports all have to ask for a token."""


BASE_VARIABLE = "RAY_TMPDIR"  # Ray's own: where a user wants its files; while a run lasts, the run's folder
PREFIX = "ssray-"  # then the driver's process number
SHORT_BASE = Path("/tmp")  # where the usual temporary folder has too long a name, or is open to others
SOCKET_BYTES = 103 if sys.platform == "darwin" else 107
IN_THE_FOLDER = "ray/session_2026-01-31_23-59-59_123456_{pid}/sockets/plasma_store"  # Ray's longest socket name
RANDOM = 8  # characters that `mkdtemp` appends
OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH
REMOVALS, BETWEEN_REMOVALS_S = 5, 0.1  # a process that is just ending may still write


@contextlib.contextmanager
def new_folder() -> Generator[Path]:
    """Create a folder of mode 0700, and remove it at the end. Raises InputError, one line, where no place is safe."""
    base = _base()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
    interrupts.remove_at_the_end(folder)
    try:
        status = folder.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.getuid() or mode != 0o700:  # some file systems keep no modes
            raise InputError(
                f"{folder}: expected a folder of this user with mode 700, got owner {status.st_uid} and "
                f"mode {mode:o}; name another place with {BASE_VARIABLE}"
            )
        yield folder
    finally:
        remove(folder)


def folders() -> Iterator[tuple[int, Path]]:
    """The folders of this user's runs, also of killed ones, each with the process number of its driver."""
    for base in dict.fromkeys([_usual_base(), Path(os.path.realpath(tempfile.gettempdir())), SHORT_BASE]):
        for folder in base.glob(f"{PREFIX}*-*"):
            with contextlib.suppress(OSError, ValueError):
                status = folder.lstat()
                driver = int(folder.name.removeprefix(PREFIX).split("-")[0])
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield driver, folder


def remove(folder: Path) -> None:
    """Remove a run's folder. The next run removes what cannot be removed now."""
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(BETWEEN_REMOVALS_S)


def _base() -> Path:
    """Choose the parent folder: the one that the user names for Ray, else the temporary folder, else /tmp."""
    usual = _usual_base()
    reason = _unfit(usual)
    if reason is None:
        return usual
    if not _named_base() and _unfit(SHORT_BASE) is None:
        return SHORT_BASE
    named = BASE_VARIABLE if _named_base() else "TMPDIR"
    raise InputError(f"{named}: expected a folder in which Ray's files can be closed to other users, got {reason}")


def _usual_base() -> Path:
    return Path(os.path.realpath(_named_base() or tempfile.gettempdir()))


def _named_base() -> str | None:
    """The folder that the user names for Ray; the folder of an enclosing run does not count."""
    named = os.environ.get(BASE_VARIABLE)
    return None if named and Path(named).name.startswith(PREFIX) else named


def _unfit(base: Path) -> str | None:
    """Why a run's folder must not lie here: its path is too long, or other users could replace it. None if it may."""
    longest = base / f"{PREFIX}{os.getpid()}-{'x' * RANDOM}" / IN_THE_FOLDER.format(pid=os.getpid())
    if (excess := len(os.fsencode(longest)) - SOCKET_BYTES) > 0:
        return f"{base}, which is {excess} bytes too long for the names of Ray's sockets"
    trusted = {0, os.getuid(), *_unmapped_owners()}
    for place in (base, *base.parents):
        try:
            status = place.lstat()
        except OSError as error:
            return f"{place}: {error.strerror}"
        if not stat.S_ISDIR(status.st_mode):
            return f"{place}, which is no folder"
        if status.st_uid not in trusted:
            return f"{place}, which belongs to another user ({status.st_uid})"
        if status.st_mode & OPEN_TO_OTHERS and not status.st_mode & stat.S_ISVTX:
            return f"{place}, where others may rename files of this user (mode {stat.S_IMODE(status.st_mode):o})"
    return None if os.access(base, os.W_OK | os.X_OK) else f"{base}, which cannot be written"


def _unmapped_owners() -> set[int]:
    """The user id that stands for root in a user namespace without root, as in a container started without rights."""
    with contextlib.suppress(OSError, ValueError):
        lines = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(int(outside) == 0 for _, outside, _ in lines):
            return {int(Path("/proc/sys/kernel/overflowuid").read_text())}
    return set()


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
