"""What a task may read of an input's manifest: its configuration and its metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def config_of(folder: Path) -> dict[str, Any]:
    """The configuration that the artifact in this folder was made with."""
    return json.loads((folder / "manifest.json").read_text())["config"]


def metrics_of(folder: Path) -> dict[str, Any]:
    """The numbers that the stage measured when it made the artifact in this folder."""
    return json.loads((folder / "manifest.json").read_text())["metrics"]
