"""What of a setting goes into a fingerprint: its meaning and, for files, their content."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from core.errors import InputError


def normalised(settings: BaseModel, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The settings as JSON values: null fields left out, so that a new optional key keeps old fingerprints."""
    return settings.model_dump(mode="json", exclude_none=True, exclude=set(without))


def content_of(path: str | None) -> dict[str, str]:
    """{'content': SHA-256 of the file or folder} for a path, {} for none. InputError if it is not there."""
    return {"content": _digest(str(Path(path).expanduser().resolve()))} if path is not None else {}


@lru_cache(maxsize=256)
def _digest(path: str) -> str:
    from core.data.labelled import content_digest  # reads files without loading torch where it can

    if not Path(path).exists():
        raise InputError(f"{path}: expected a file or folder, got nothing there")
    return content_digest(Path(path))
