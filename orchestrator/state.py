"""What a running sweep tells `smoothsweep status`: one small file, replaced every second."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import psutil

from orchestrator.progress import SweepState
from orchestrator.store import write_atomically

STATE_FILE = "state.json"
FRESH_S = 60.0


def write_state(folder: Path, state: SweepState, failures: dict[str, str], *, finished: bool) -> None:
    """Replace the state file. `running` entries keep what `status` shows."""
    content = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": time.time(),
        "finished": finished,
        "running": [] if finished else state.running,
        "failures": failures,
        "headline": state.headline(),
    }
    write_atomically(folder / STATE_FILE, json.dumps(content, indent=1).encode())


def read_state(folder: Path) -> dict[str, Any] | None:
    """The last state with `alive`: whether its driver still runs. None if the sweep never ran."""
    try:
        state = json.loads((folder / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    here = state["host"] == socket.gethostname()
    fresh = time.time() - state["time"] < FRESH_S
    state["alive"] = not state["finished"] and (psutil.pid_exists(state["pid"]) if here else fresh)
    return state


def read_failures(folder: Path) -> dict[str, str]:
    state = read_state(folder)
    return state["failures"] if state else {}
