"""What a task may read of the manifest beside an input: the configuration it was made with, and what it measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())["config"]


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())["metrics"]
