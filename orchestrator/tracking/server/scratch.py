"""Folders for files on their way to MLflow. Those of a recorder that was killed are swept away by the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PREFIX = "smoothsweep-record"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards; its name says whose it is."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def sweep_away_scratch() -> None:
    """Remove the folders of processes of this machine that are dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
