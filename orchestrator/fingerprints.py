"""What of a setting goes into a fingerprint: its meaning and, for files, their content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from core.errors import InputError

SHIPPED_FILES = {
    "synthetic": "core/models/weights/synthetic_embedder.safetensors",
    "stylegan2_synthetic64": "core/priors/weights/stylegan2_synthetic64.safetensors",
}


def normalised(settings: BaseModel, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The settings as JSON values: null fields left out, so that a new optional key keeps old fingerprints."""
    return settings.model_dump(mode="json", exclude_none=True, exclude=set(without))


def content_of(path: str | Path | None) -> dict[str, str]:
    """{'content': SHA-256 of the file or folder} for a path, {} for none. InputError if it is not there."""
    return {"content": _digest(str(Path(path).expanduser().resolve()))} if path is not None else {}


def shipped_file(name: str) -> Path:
    """The weights that come with smoothsweep under this name."""
    return Path(__file__).resolve().parent.parent / SHIPPED_FILES[name]


@lru_cache(maxsize=256)
def _digest(path: str) -> str:
    """SHA-256 of a file, or of a folder's relative names and contents (hidden files left out)."""
    root = Path(path)
    if root.is_file():
        return _file_digest(root)
    if not root.is_dir():
        raise InputError(f"{path}: expected a file or folder, got nothing there")
    digest = hashlib.sha256()
    for file in sorted(p for p in root.rglob("*") if p.is_file()):
        name = file.relative_to(root)
        if not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\0{_file_digest(file)}\n".encode())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
