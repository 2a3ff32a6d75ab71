"""What of a setting goes into a fingerprint: its meaning and, for files, their content."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.planned_files import content_at

READ_LATER = ("data.path", "public.path", "prior.path")
"""Keys whose files a plan may be made without."""

NOTHING_AT = "nothing at "
"""How the content begins of files that a plan is made without."""

_ABSENT: ContextVar[dict[str, str] | None] = ContextVar("files that are not there", default=None)


@contextlib.contextmanager
def files_may_be_absent() -> Generator[dict[str, str]]:
    """Within it data and priors that lie nowhere have a content that is not known: enough for a plan.

    Gives a mapping, filled as stages are looked at: key of the sweep file -> the place where nothing is.
    """
    absent: dict[str, str] = {}
    token = _ABSENT.set(absent)
    try:
        yield absent
    finally:
        _ABSENT.reset(token)


def normalised(settings: BaseModel, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The settings as JSON values: null fields left out, so that a new optional key keeps old fingerprints."""
    return settings.model_dump(mode="json", exclude_none=True, exclude=set(without))


def is_absent(path: str | Path, key: str) -> bool:
    """Whether nothing lies there, and what is being planned may do without it."""
    return _ABSENT.get() is not None and key in READ_LATER and not Path(path).expanduser().exists()


def content_of(path: str | Path | None, key: str, *, any_files: bool = False) -> dict[str, str]:
    """{'content': SHA-256 of the file or folder} for a path, {} for none. InputError naming `key` if it is not there.

    A folder of pictures may hold nothing else, unless `any_files`: published data sets come with lists.
    """
    if path is None:
        return {}
    place = Path(path).expanduser().resolve()
    if (absent := _ABSENT.get()) is not None and is_absent(place, key):
        absent[key] = str(place)
        return {"content": f"{NOTHING_AT}{place}"}
    if not place.exists():
        raise InputError(f"{key}: expected a file or folder, got nothing at {place}")
    return {"content": _digest(str(place), any_files)}


def lacks_files(config: Mapping[str, Any]) -> bool:
    """Whether this stage's own files are nowhere: what they hold cannot be checked yet."""
    return str(config.get("content", "")).startswith(NOTHING_AT)


@lru_cache(maxsize=256)
def _digest(path: str, any_files: bool) -> str:
    """The content's digest as this process saw it first: all stages of one command are planned on the same."""
    return content_at(Path(path), any_files=any_files)
