"""Artifacts that are being written: a folder whose name says who writes it, so that dead writers' are swept away."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import psutil

from core.files import half_written, temporary_name
from orchestrator.store.artifacts import MANIFEST
from orchestrator.store.sealing import FINGERPRINT


def new_draft(final: Path) -> Path:
    """A fresh folder beside `final`: .<fingerprint>.<host>.<pid>.<random>."""
    draft = temporary_name(final)
    draft.mkdir(parents=True)
    return draft


def sweep_away_drafts(root: Path) -> int:
    """Remove drafts and half-written files below this store whose writer on this host is dead, and what finished stages
    still keep for another attempt: their writer died between sealing the artifact and clearing up. Returns how many.
    """
    removed = 0
    for folder in (root, *root.glob("*/"), *root.glob("sweeps/*/")):
        for path in half_written(folder):
            path.unlink(missing_ok=True)
            removed += 1
    for draft in root.glob("*/.*.*.*.*"):
        fingerprint, _, writer = draft.name[1:].partition(".")
        host, pid, _ = writer.rsplit(".", 2) if writer.count(".") >= 2 else ("", "", "")
        ours = draft.is_dir() and FINGERPRINT.fullmatch(fingerprint) and host == socket.gethostname()
        if ours and pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(draft, ignore_errors=True)
            removed += 1
    for work in root.glob("*/*.work"):
        done = FINGERPRINT.fullmatch(work.stem) and (work.with_suffix("") / MANIFEST).is_file()
        if done and work.is_dir() and not work.is_symlink():
            shutil.rmtree(work, ignore_errors=True)
            removed += 1
    return removed
