"""Where this source tree lies: the folder that holds core, tasks, sweeps and orchestrator."""

from __future__ import annotations

from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
