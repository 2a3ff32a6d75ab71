"""Whether an artifact's files are what their manifest says: read whole once per machine, by size and times after that.

    <cache>/verified/<digest of host and store>/<kind>.<fingerprint>     what was found right, as JSON
    <cache>/verified/<digest of host and store>/store                    the store's folder

The notes lie outside of the store: what changes an artifact does not change them. Who made an artifact notes it too.
Here is also what this machine keeps for itself: the folder for caches, and locks between its processes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.store.manifests import Damage

CACHE_VARIABLE = "SMOOTHSWEEP_CACHE"
STORE_NOTE = "store"

Signature = tuple[int, int, int, int]  # of a file: size, times of change of content and of inode, inode

_right: dict[Path, dict[str, tuple[Signature, str]]] = {}  # folder -> name -> as it was when it had this checksum


def checksum(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:  # one of a file that is being read names none
        raise OSError(error.errno, error.strerror, str(path)) from None


def sizes(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Bytes of these files. Raises Damage for one that is missing, or a link: those lead out of the store."""
    return {name: _signature(folder, name)[0] for name in names}


def verify(folder: Path, files: Mapping[str, str]) -> None:
    """Raise Damage, naming the file, unless each of these files (name -> SHA-256) is in the folder and right."""
    if not _unknown(folder, files):
        return
    note = _note(folder)
    with locked(note.parent, hashlib.sha256(note.name.encode()).hexdigest()[:2]):  # the first worker reads for all
        with suppress(OSError, ValueError, TypeError, AttributeError):  # a note that is damaged tells nothing
            for name, (signature, known) in json.loads(note.read_text()).items():
                _right.setdefault(folder, {}).setdefault(name, (tuple(signature), known))
        unknown = _unknown(folder, files)
        for name, expected in unknown.items():
            before = _signature(folder, name)
            if checksum(folder / name) != expected:
                raise Damage(f"{name} differs from its checksum")
            _right.setdefault(folder, {})[name] = (before, expected)
        if unknown:
            _remember(folder)


def note_as_right(folder: Path, files: Mapping[str, str]) -> None:
    """Note files that this process has just made, and of which it has the checksums, as verified."""
    with suppress(Damage):  # another process removes the artifact meanwhile
        _right[folder] = {name: (_signature(folder, name), known) for name, known in files.items()}
        _remember(folder)


def forget(folder: Path) -> None:
    """Drop what is known of an artifact: the next look reads it whole."""
    _right.pop(folder, None)
    with suppress(OSError):
        _note(folder).unlink()


def _unknown(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Files that are not known to be right as they are now."""
    known = _right.get(folder, {})
    return {name: digest for name, digest in files.items() if known.get(name) != (_signature(folder, name), digest)}


def _signature(folder: Path, name: str) -> Signature:
    try:
        status = os.lstat(folder / name)
    except OSError:
        raise Damage(f"{name} is missing") from None
    if not stat.S_ISREG(status.st_mode):
        raise Damage(f"{name} is no plain file")
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _remember(folder: Path) -> None:
    """Leave what this process knows of the artifact to the others. A courtesy: without it they read it themselves."""
    note = _note(folder)
    with suppress(OSError):
        if not (note.parent / STORE_NOTE).exists():
            for known in note.parent.parent.glob(f"*/{STORE_NOTE}"):
                if not Path(known.read_text()).exists():
                    shutil.rmtree(known.parent, ignore_errors=True)
            write_file(note.parent / STORE_NOTE, str(folder.parent.parent), parents=True, flush=False)
        write_file(note, json.dumps(_right.get(folder, {})), flush=False)


def _note(folder: Path) -> Path:
    digest = hashlib.sha256(f"{socket.gethostname()} {folder.parent.parent}".encode()).hexdigest()[:16]
    return cache_folder() / "verified" / digest / f"{folder.parent.name}.{folder.name}"


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
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return folder if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK) else _temporary()


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
