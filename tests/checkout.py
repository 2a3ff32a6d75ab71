"""A copy of the checkout's own packages, to be edited or shipped."""

import shutil
from collections.abc import Callable
from pathlib import Path

NOT_SOURCES = shutil.ignore_patterns("__pycache__")
PACKAGES = ("core", "tasks", "sweeps", "orchestrator", "smoothsweep")


def copy_packages(source: Path, to: Path, *, ignore: Callable = NOT_SOURCES) -> Path:
    """Copy what runs from one folder to another, links as links. Returns the copy's folder."""
    for name in PACKAGES:
        shutil.copytree(source / name, to / name, ignore=ignore, symlinks=True)
    return to
