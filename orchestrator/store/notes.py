"""Notes of a sweep (its state, its cost, its proposals): read in full or set aside, never misread.

A note that is JSON cannot be cut unnoticed. One of many lines begins with a digest of the rest. What is damaged is
renamed to `<note>.damaged-<random>`, reported in one line, and counts as not written: each note can be rebuilt.
Likewise what pages read of finished stages: verified before a run takes them for finished, and when a page is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store, report_damage
from smoothsweep.orchestrator.store.manifests import SEAL

Note = TypeVar("Note", bound=BaseModel)
Result = TypeVar("Result")

SHOWN_BYTES = 2**20  # tables, curves, names: what pages read whole. Tensors are verified by their readers


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
    place = store.set_note_aside(name, file)
    report_damage(f"{name}: {file} is damaged, and set aside as {place}; {consequence}")


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()


def quarantine_damaged(store: Store, stages: Iterable[Stage]) -> None:
    """Verify the small files of those of these stages that are finished; what is damaged is told of and set aside.

    It is then missing, and the next plan makes it again.
    """
    for stage in stages:
        if store.has(stage):
            try:
                for name in store.manifest(stage)["files"]:
                    path = store.place(stage) / name  # of a remote store what is here; the rest as it is fetched
                    if path.is_file() and path.stat().st_size < SHOWN_BYTES:
                        store.file(stage, name)
            except ArtifactDamaged as damaged:
                report_damage(str(damaged))


def read_with_repair(read: Callable[[], Result]) -> tuple[Result, bool]:
    """read(), again whenever it meets a damaged artifact, which is then set aside and told of; whether it met one."""
    met: set[str] = set()
    while True:
        try:
            return read(), bool(met)
        except ArtifactDamaged as damaged:
            if str(damaged) in met:  # setting it aside did not help
                raise InputError(str(damaged)) from None
            report_damage(str(damaged))
            met.add(str(damaged))
