"""`smoothsweep data check`: what is on disk, in words."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.data.likeness import refuse_identical
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.data.published import check_published
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.audit.judges import judge_of
from smoothsweep.orchestrator.commands.audit.people_shown import Found, look_for_people


def check_own_data(path: Path, public: Path | None, judge: str | None = None, bits: int | None = None) -> int:
    """The exit code: 1 where loading would refuse something. Raises InputError where a private picture is public.

    judge: NAME=FILE of a face embedder, as `smoothsweep audit` takes it.
    """
    judges = judge_of(judge)
    check = check_own(path, public, bits=bits, tell=screen.out)
    shown = Found() if public is None else look_for_people(path, public, judges, bits=bits)
    screen.out_text("\n".join(map(printable, check.lines((*shown.warnings, *shown.notes)))))
    if public is not None:
        refuse_identical(path, public, check.shared)
    return 0 if check.is_usable else 1


def check_published_data(kind: str, path: Path, classes: int | None, pictures: str | None) -> int:
    """The exit code: 1 where something is missing, broken, or not as recorded."""
    check = check_published(kind, path, classes=classes, pictures=pictures)
    screen.out_text("\n".join(map(printable, check.lines)))
    return 0 if check.is_complete else 1
