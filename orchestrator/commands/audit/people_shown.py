"""Ask the face embedder of a command whom its public images show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.orchestrator.commands.audit.judges import FACE, Judges

COPIES_ALONE = (
    "public images were compared for copies alone: with --judge NAME=FILE, a face embedder looks for the same people "
    "in other photographs, too"
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found, in sentences: warnings with names and without, and notes where there is nothing to warn of."""

    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def look_for_people(
    private: Path, public: Path, judges: Judges, *, bits: int | None, tell: Callable[[str], None] = screen.out
) -> Found:
    """Compare the people of two sets by the embedder of faces among the judges. Raises InputError."""
    if (judge := judges.get(FACE)) is None:
        return Found(notes=(COPIES_ALONE,))
    from smoothsweep.core.analysis.shown_people import find_shown_people

    shown = find_shown_people(private, public, judge, bits=bits, tell=tell)
    lines = shown.lines(judge["name"])
    if not shown.is_surprising:
        return Found(notes=lines)
    return Found(warnings=lines, unnamed=shown.lines(judge["name"], named=False))
