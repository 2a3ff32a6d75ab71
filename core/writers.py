"""Who writes what is not finished yet, and whether that writer still lives.

A name ends with its writer: <host>-<digest>.<pid>.<random>. The digest is of the kernel's boot and of the namespace
that process numbers belong to, for containers often share a host name and count their processes from 1. Where it is
our own, the process number decides. Elsewhere a lease does: what its writer has not touched for a day, and does not
hold by a lock that reaches us, was left by a machine that is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
import threading
import time
import uuid
from functools import lru_cache
from pathlib import Path

import psutil

LEASE_S = 24 * 3600.0
BEAT_S = 300.0
WRITER = re.compile(r".+\.(\d+)\.[0-9a-f]{8}")

_held: dict[Path, int | None] = {}  # path -> descriptor that holds its lock, None where the file system has no locks
_guard = threading.Lock()
_beating: list[int] = []  # processes whose thread was started: a forked child has none


@lru_cache(maxsize=1)
def machine_id() -> str:
    """The host's name and a digest of what process numbers of this process mean anything in."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:  # another system than Linux: no containers
        kernel, numbers = str(uuid.getnode()), ""
    return f"{socket.gethostname()}-{hashlib.sha256(f'{kernel} {numbers}'.encode()).hexdigest()[:8]}"


def writer_name() -> str:
    """The end of a name for something that this process is about to write."""
    return f"{machine_id()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"


def is_gone(writer: str, path: Path | None = None) -> bool:
    """Whether a writer has died. path: what it was writing; without one only writers of this place can be told."""
    where, pid, _ = writer.rsplit(".", 2) if writer.count(".") >= 2 else ("", "", "")
    if not pid.isdigit():
        return False
    if where == machine_id() and not psutil.pid_exists(int(pid)):
        return True
    return path is not None and has_lapsed(path) and not _is_locked(path)


def has_lapsed(path: Path) -> bool:
    """Whether this was not touched for longer than a lease; of a folder, neither it nor anything directly in it."""
    try:
        times = [os.lstat(path).st_mtime]
        if path.is_dir() and not path.is_symlink():
            times += [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(path)]
    except OSError:  # another process is at it
        return False
    return time.time() - max(times) > LEASE_S


def hold_folder(folder: Path) -> None:
    """Show others that this process is at work in the folder, until `release_folder`, or until we end."""
    with _guard:
        _let_go_of_gone()
        _held[folder] = _locked(folder)
        if os.getpid() not in _beating:
            _beating.append(os.getpid())
            threading.Thread(target=_beat, name="heartbeat", daemon=True).start()


def release_folder(folder: Path) -> None:
    """End what `hold_folder` began. Without it a removed folder keeps its file system busy."""
    with _guard:
        _close(folder)


def _locked(folder: Path) -> int | None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks here: the lease alone decides
        return False
    finally:
        os.close(descriptor)
    return False


def _beat() -> None:
    while True:
        time.sleep(BEAT_S)
        with _guard:
            _let_go_of_gone()
            folders = list(_held)
        for folder in folders:
            with contextlib.suppress(OSError):
                os.utime(folder)


def _let_go_of_gone() -> None:
    for folder in [path for path in _held if not path.exists()]:
        _close(folder)


def _close(folder: Path) -> None:
    descriptor = _held.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)
