"""What of a setting goes into a fingerprint: its meaning and, for files, their content."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from core.data.sources import content_digest
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
    if not Path(path).exists():
        raise InputError(f"{path}: expected a file or folder, got nothing there")
    return content_digest(Path(path))
