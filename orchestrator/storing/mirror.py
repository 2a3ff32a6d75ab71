"""The mirror of a remote store on this machine: where it lies, and files that come into it once, verified."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import InputError
from core.files import replacing
from orchestrator.storing.objects import SCHEME, Objects, endpoint

CACHE_VARIABLE = "SMOOTHSWEEP_CACHE"


def mirror_of(url: str) -> Path:
    """The folder for this store under SMOOTHSWEEP_CACHE, else XDG_CACHE_HOME/smoothsweep, else ~/.cache/smoothsweep.

    The name holds a digest of address and service, so that two services' buckets of one name do not share a folder.
    """
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothsweep"
    base = Path(os.environ.get(CACHE_VARIABLE) or default).expanduser().resolve()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url.removeprefix(SCHEME))[:60]
    digest = hashlib.sha256(f"{endpoint()} {url}".encode()).hexdigest()[:8]
    return base / "stores" / f"{readable}-{digest}"


@contextmanager
def locked(root: Path, name: str) -> Iterator[None]:
    """One process of this machine at a time; a killed holder lets go."""
    folder = root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch(objects: Objects, key: str, path: Path, checksum: str) -> None:
    """Bring one object of an artifact: under a temporary name, verified, renamed.

    Raises FileNotFoundError where there is no such object and InputError where it is not what it was.
    """
    with replacing(path) as temporary:
        got = objects.download(key, temporary)
        if got != checksum:
            raise InputError(f"{objects.url}/{key}: expected content of SHA-256 {checksum[:12]}..., got {got[:12]}...")
