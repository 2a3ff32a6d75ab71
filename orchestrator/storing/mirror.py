"""The mirror of a remote store on this machine: where it lies, and files that come into it once, verified."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from core.files import replacing
from orchestrator.storing.machine import cache_folder
from orchestrator.storing.objects import SCHEME, Objects, endpoint
from orchestrator.storing.sealing import Damage


def mirror_of(url: str) -> Path:
    """The folder for this store under the machine's cache.

    The name holds a digest of address and service, so that two services' buckets of one name do not share a folder.
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url.removeprefix(SCHEME))[:60]
    digest = hashlib.sha256(f"{endpoint()} {url}".encode()).hexdigest()[:8]
    return cache_folder() / "stores" / f"{readable}-{digest}"


def fetch(objects: Objects, key: str, path: Path, checksum: str) -> None:
    """Bring one object of an artifact: under a temporary name, verified, renamed.

    Raises FileNotFoundError where there is no such object and Damage where it is not what it was.
    """
    with replacing(path) as temporary:
        got = objects.download(key, temporary)
        if got != checksum:
            raise Damage(f"{path.name} differs from its checksum")
