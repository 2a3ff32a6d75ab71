"""Artifacts that are being written: a folder whose name says who writes it, so that dead writers' are swept away."""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from pathlib import Path

import psutil

from orchestrator.store.sealing import FINGERPRINT


def new_draft(final: Path) -> Path:
    """A fresh folder beside `final`: .<fingerprint>.<host>.<pid>.<random>."""
    draft = final.with_name(f".{final.name}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    draft.mkdir(parents=True)
    return draft


def sweep_away_drafts(root: Path) -> int:
    """Remove drafts below this store whose writer on this host is dead. Returns how many."""
    removed = 0
    for draft in root.glob("*/.*.*.*.*"):
        fingerprint, _, writer = draft.name[1:].partition(".")
        host, pid, _ = writer.rsplit(".", 2) if writer.count(".") >= 2 else ("", "", "")
        ours = draft.is_dir() and FINGERPRINT.fullmatch(fingerprint) and host == socket.gethostname()
        if ours and pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(draft, ignore_errors=True)
            removed += 1
    return removed
