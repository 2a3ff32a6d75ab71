"""Whether an artifact's files are what their manifest says: read whole once per machine, by size and times after that.

    <cache>/verified/<digest of host and store>/<kind>.<fingerprint>     what was found right, as JSON
    <cache>/verified/<digest of host and store>/store                    the store's folder

The notes lie outside of the store: what changes an artifact does not change them. Who made an artifact notes it too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.store.common.machine import cache_folder, locked
from smoothsweep.orchestrator.store.common.sealing import Damage

Signature = tuple[int, int, int, int]  # of a file: size, times of change of content and of inode, inode

STORE_NOTE = "store"

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
    with _one_at_a_time(folder):
        _recall(folder)
        unknown = _unknown(folder, files)
        for name, expected in unknown.items():
            before = _signature(folder, name)
            if checksum(folder / name) != expected:
                raise Damage(f"{name} differs from its checksum")
            _right.setdefault(folder, {})[name] = (before, expected)
        if unknown:
            _remember(folder)


def is_damaged(folder: Path, name: str, expected: str) -> bool:
    """Whether this file is missing or not what it was."""
    try:
        verify(folder, {name: expected})
    except Damage:
        return True
    return False


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


@contextmanager
def _one_at_a_time(folder: Path) -> Generator[None]:
    """Workers of one machine that need the same artifact at once: the first reads it, the others its note."""
    note = _note(folder)
    with ExitStack() as stack:
        with suppress(OSError):  # a cache that cannot be written: each reads for itself
            stack.enter_context(locked(note.parent, hashlib.sha256(note.name.encode()).hexdigest()[:2]))
        yield


def _recall(folder: Path) -> None:
    """Take over what other processes of this machine found right. A note that is damaged tells nothing."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        for name, (signature, known) in json.loads(_note(folder).read_text()).items():
            _right.setdefault(folder, {}).setdefault(name, (tuple(signature), known))


def _remember(folder: Path) -> None:
    """Leave what this process knows of the artifact to the others. A courtesy: without it they read it themselves."""
    note = _note(folder)
    with suppress(OSError):
        if not (note.parent / STORE_NOTE).exists():
            _sweep_away_notes(note.parent.parent)
            write_file(note.parent / STORE_NOTE, str(_store_of(folder)), parents=True, flush=False)
        write_file(note, json.dumps(_right.get(folder, {})), flush=False)


def _sweep_away_notes(notes: Path) -> None:
    """Remove those of stores that are gone."""
    for store in notes.glob(f"*/{STORE_NOTE}"):
        if not Path(store.read_text()).exists():
            shutil.rmtree(store.parent, ignore_errors=True)


def _note(folder: Path) -> Path:
    return _notes_of(_store_of(folder)) / f"{folder.parent.name}.{folder.name}"


def _store_of(folder: Path) -> Path:
    return folder.parent.parent


def _notes_of(store: Path) -> Path:
    digest = hashlib.sha256(f"{socket.gethostname()} {store}".encode()).hexdigest()[:16]
    return cache_folder() / "verified" / digest
