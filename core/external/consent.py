"""Which models that do more than compute this user has imported: what a folder from elsewhere names is not run.

A card beside a program is data. A card that names code, or a place to send pictures to, is a wish, and a sweep file and
its folder may both come from another person. So the wish counts only where this user has imported it themselves. A
program counts as code, too, where the kernel cannot hold a process to computing (`core.isolation`).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.files import write_file
from smoothsweep.core.isolation.limits import can_isolate
from smoothsweep.core.readers.archives import MOST_BYTES
from smoothsweep.core.readers.files import pieces_of


def needs_consent(kind: str) -> bool:
    """Whether a model of this kind (`core.external.kinds.KINDS`) is used only where this user has imported it."""
    return kind in KINDS and not (KINDS[kind].computes_alone and can_isolate())


def agreed_to(file: Path) -> bool:
    """Whether this user has imported what the file describes. Raises OSError where it cannot be read, and InputError
    for what is no regular file or larger than any model."""
    return _note(file).is_file()


def agree_to(file: Path) -> None:
    """Note that this user has."""
    write_file(_note(file), "", parents=True)


def _note(file: Path) -> Path:
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    digest = hashlib.sha256()
    for piece in pieces_of(file, most_bytes=MOST_BYTES):
        digest.update(piece)
    return home / "smoothsweep" / "agreed" / digest.hexdigest()
