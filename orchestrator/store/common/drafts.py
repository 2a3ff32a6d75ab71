"""Artifacts that are being written: a folder whose name says who writes it, so that dead writers' are swept away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from smoothsweep.core.files import half_written, temporary_name
from smoothsweep.core.writers import hold_folder, is_gone
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.common.sealing import FINGERPRINT


def new_draft(final: Path) -> Path:
    """A fresh folder beside `final`: .<fingerprint>.<writer>, see core/writers.py."""
    draft = temporary_name(final)
    draft.mkdir(parents=True)
    hold_folder(draft)
    return draft


def sweep_away_drafts(root: Path) -> int:
    """Remove drafts and half-written files below this store whose writer is gone, and what finished stages still keep
    for another attempt: their writer died between sealing the artifact and clearing up. Returns how many.
    """
    removed = 0
    for folder in (root, *root.glob("*/"), *_below(root / "sweeps"), *chain(*map(_below, root.glob("*/*.work*")))):
        for path in half_written(folder):
            path.unlink(missing_ok=True)
            removed += 1
    for draft in root.glob("*/.*.*.*.*"):
        fingerprint, _, writer = draft.name[1:].partition(".")
        if draft.is_dir() and FINGERPRINT.fullmatch(fingerprint) and is_gone(writer, draft):
            shutil.rmtree(draft, ignore_errors=True)
            removed += 1
    for work in root.glob("*/*.work"):
        done = FINGERPRINT.fullmatch(work.stem) and (work.with_suffix("") / MANIFEST).is_file()
        if done and work.is_dir() and not work.is_symlink():
            shutil.rmtree(work, ignore_errors=True)
            removed += 1
    return removed


def _below(folder: Path) -> Iterator[Path]:
    """The folder and all folders below it, but none that a link leads to."""
    for name, _, _ in os.walk(folder):
        yield Path(name)
