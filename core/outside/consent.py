"""Which functions and endpoints this user has brought in: what a folder from somebody else names is not run, nor asked.

A card beside a program is data. A card that names code, or a place to send pictures to, is a wish, and a sweep file and
its folder may both come from somebody else. So the wish counts only where this user has imported it themselves.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from core.files import write_file


def agreed_to(file: Path) -> bool:
    """Whether this user has imported what the file describes. Raises OSError where it cannot be read."""
    return _note(file).is_file()


def agree_to(file: Path) -> None:
    """Note that this user has."""
    write_file(_note(file), "", parents=True)


def _note(file: Path) -> Path:
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return home / "smoothsweep" / "agreed" / hashlib.sha256(file.read_bytes()).hexdigest()
