"""The folder of an export or of an opened bundle: written as a whole, with a list of its files and their digests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, move, temporary_name, write_file
from smoothsweep.core.readers.files import pieces_of, read_whole

MOST_INDEX, MOST_FILE = 32 * 2**20, 64 * 2**30


def digest(content: bytes) -> str:
    """SHA-256 as hexadecimal digits."""
    return sha256(content).hexdigest()


def refuse_other_content(out: Path, index: str, flag: str = "--out") -> None:
    """Raise InputError unless there is nothing at `out`, an empty folder, or an earlier export that was not edited.

    index: the name of the list of files in such a folder.
    """
    if not out.is_dir():
        if os.path.lexists(out):
            raise InputError(f"{flag} {out}: expected a new or empty folder, got a file")
        return
    there = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    if not there:
        return
    known = {**_listed(out / index), index: None}
    for name in there:
        if name not in known:
            raise InputError(f"{flag} {out}: expected a new or empty folder, got one that holds {name}")
        if known[name] is not None and _digest_of(out / name) != known[name]:
            raise InputError(f"{flag} {out}: expected a new or empty folder, got an export whose {name} was edited")


def write_folder(out: Path, files: Iterable[tuple[str, bytes]], index: str, about: Mapping[str, Any]) -> list[str]:
    """Write the files and the list of them; nothing is at `out` before all are written. Returns their names."""
    digests: dict[str, str] = {}
    with making_folder(draft_folder(out)) as draft:
        for name, content in files:
            digests[name] = digest(content)
            write_file(draft / name, content, parents=True, flush=False)  # the folder is flushed as a whole
        listed = {**about, "files": dict(sorted(digests.items()))}
        write_file(draft / index, json.dumps(listed, indent=1, ensure_ascii=False) + "\n", flush=False)
    put_in_place(draft_folder(out), out)
    return [*digests, index]


def put_in_place(finished: Path, out: Path) -> None:
    """Give a finished folder its name; what `refuse_other_content` has allowed there goes away."""
    old = None
    try:
        if out.is_dir():
            old = temporary_name(out)
            move(out, old)
        move(finished, out)
    finally:
        shutil.rmtree(finished, ignore_errors=True)
        if old is not None:
            if not out.exists():
                move(old, out)
            shutil.rmtree(old, ignore_errors=True)


def draft_folder(out: Path) -> Path:
    """Where a folder is made ready; the name is of this process alone."""
    return out.with_name(f".{out.name}.{os.getpid()}.ready")


def _listed(index: Path) -> dict[str, str]:
    """Name -> digest, as an index says; empty where there is none that can be read."""
    try:
        files = json.loads(read_whole(index, most_bytes=MOST_INDEX))["files"]
        return {str(name): str(value) for name, value in files.items()}
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _digest_of(path: Path) -> str:
    digest = sha256()
    for piece in pieces_of(path, most_bytes=MOST_FILE):
        digest.update(piece)
    return digest.hexdigest()
