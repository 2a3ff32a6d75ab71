"""Models that are no files: their names, and the file that stands for one."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.kinds import Named, Source
from smoothsweep.core.files import write_file


def name_of(source: Source) -> str | None:
    """The name of a model that is no file."""
    return source.text if isinstance(source, Named) else None


def source_file(source: Source, out: Path, model: ForeignModel, place: Path) -> Path:
    """The file that stands for a model: its own, or what describes it, written into `place`. Raises InputError."""
    if not isinstance(source, Named):
        return source
    file = place / model.file
    write_file(file, model.describe(source.text, out))
    return file
