"""`smoothsweep data check`: what is on disk, in words."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.data.own.check import check_own
from smoothsweep.core.data.own.check_text import own_text
from smoothsweep.core.data.own.overlap import refuse_identical
from smoothsweep.core.data.published_check import check_published, check_text
from smoothsweep.core.text import printable


def check_own_data(path: Path, public: Path | None) -> int:
    """The exit code: 1 where loading would refuse something. Raises InputError where a private picture is public."""
    check = check_own(path, public)
    screen.out_text("\n".join(map(printable, own_text(check))))
    if public is not None:
        refuse_identical(path, public, check.shared)
    return 0 if check.is_usable else 1


def check_published_data(kind: str, path: Path, classes: int | None, pictures: str | None) -> int:
    """The exit code: 1 where something is missing, broken, or not as recorded."""
    check = check_published(kind, path, classes=classes, pictures=pictures)
    screen.out_text("\n".join(map(printable, check_text(check))))
    return 0 if check.is_complete else 1
