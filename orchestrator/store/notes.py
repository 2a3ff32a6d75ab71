"""Notes of a sweep (its state, its cost, its proposals): read in full or set aside, never misread.

A note that is JSON cannot be cut unnoticed. One of many lines begins with a digest of the rest. What is damaged is
renamed to `<note>.damaged-<random>`, reported in one line, and counts as not written: each note can be rebuilt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from smoothsweep.orchestrator.store.base import Store, aside_name, report_damage
from smoothsweep.orchestrator.store.manifests import SEAL

Note = TypeVar("Note", bound=BaseModel)


def read_note(store: Store, name: str, file: str, kind: type[Note], consequence: str) -> Note | None:
    """A note of JSON; None if there is none, or it is damaged. consequence: what that means, in words."""
    content = store.read_note(name, file)
    if content is None:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        return _set_aside(store, name, file, consequence)


def read_lines(store: Store, name: str, file: str, kinds: Sequence[type[BaseModel]], consequence: str) -> list[Any]:
    """A note of lines: kinds[0] of the first, kinds[-1] of the others. Empty where `read_note` gives None."""
    content = store.read_note(name, file)
    if content is None:
        return []
    lines = content.splitlines(keepends=True)
    try:
        if not lines:
            raise ValueError
        first = json.loads(lines[0])
        if isinstance(first, dict) and set(first) == {SEAL}:
            if first[SEAL] != _digest(lines[1:]):
                raise ValueError
            lines = lines[1:]
        return [kinds[0 if index == 0 else -1].model_validate_json(line) for index, line in enumerate(lines)]
    except (ValueError, RecursionError):
        return _set_aside(store, name, file, consequence) or []


def write_lines(store: Store, name: str, file: str, lines: Iterable[dict[str, Any]]) -> None:
    """Replace a note of lines as a whole."""
    content = [json.dumps(line, allow_nan=False).encode() + b"\n" for line in lines]
    head = json.dumps({SEAL: _digest(content)}).encode() + b"\n"
    store.write_note(name, file, b"".join([head, *content]))


def _set_aside(store: Store, name: str, file: str, consequence: str) -> None:
    place = aside_name(file)
    with suppress(OSError):  # a user who may not write here still goes on without it
        store.move_note(name, file, place)
    report_damage(f"{name}: {file} is damaged, and set aside as {place}; {consequence}")


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()
