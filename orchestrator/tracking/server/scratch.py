"""Folders for files on their way to MLflow. Those of a recorder that was killed are swept away by the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from smoothsweep.core.writers import is_gone, machine_id

PREFIX = "smoothsweep-record"


@contextmanager
def scratch() -> Generator[Path]:
    """A folder that is gone afterwards; its name says whose it is."""
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}-{os.getpid()}-{machine_id()}-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def sweep_away_scratch() -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*-*"):
        pid, where = folder.name.removeprefix(f"{PREFIX}-").rpartition("-")[0].partition("-")[::2]
        if is_gone(f"{where}.{pid}.0", folder):
            shutil.rmtree(folder, ignore_errors=True)
