"""What a running sweep tells `smoothsweep status`: one small file, replaced every second."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import psutil
from pydantic import BaseModel

from smoothsweep.core.durations import duration
from smoothsweep.core.text import counted
from smoothsweep.core.writers import machine_id
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_note

STATE_FILE = "state.json"
FRESH_S = 60.0


@dataclass
class SweepState:
    """Everything the display needs, kept by the driver."""

    name: str
    total_stages: int
    done_stages: int
    total_trials: int
    done_trials: int = 0
    failed_trials: int = 0
    running: list[dict[str, Any]] = field(default_factory=list)
    seconds_left: float | None = None
    unknown_stages: int = 0  # of which no time is known; seconds_left is of the others
    started: float = field(default_factory=time.monotonic)
    last: str = ""

    def headline(self) -> str:
        elapsed = duration(time.monotonic() - self.started)
        left = f", about {duration(self.seconds_left)} left" if self.seconds_left else ""
        if left and self.unknown_stages:
            left += f" and {counted(self.unknown_stages, 'stage')} of unknown length"
        failed = f", {self.failed_trials} failed" if self.failed_trials else ""
        return (
            f"{self.name}: {self.done_stages}/{self.total_stages} stages, "
            f"{self.done_trials}/{self.total_trials} trials{failed}, {elapsed}{left}"
        )


class RunningNote(BaseModel, extra="allow"):
    """A stage at work, as `status` shows it."""

    stage: str
    fingerprint: str
    fraction: float = 0.0
    text: str = ""


class StateNote(BaseModel):
    """The state file. failures, stopped: trial id -> why."""

    host: str
    pid: int
    time: float
    finished: bool
    running: list[RunningNote]
    failures: dict[str, str]
    stopped: dict[str, str] = {}
    place: str = ""
    headline: str = ""


def write_state(
    store: Store,
    name: str,
    state: SweepState,
    failures: dict[str, str],
    *,
    finished: bool,
    stopped: dict[str, str] | None = None,
) -> None:
    """Replace the state file. `running` entries keep what `status` shows. stopped: trials left open -> why."""
    content = {
        "host": socket.gethostname(),
        "place": machine_id(),
        "pid": os.getpid(),
        "time": time.time(),
        "finished": finished,
        "running": [] if finished else state.running,
        "failures": failures,
        "stopped": stopped or {},
        "headline": state.headline(),
    }
    store.write_note(name, STATE_FILE, json.dumps(content, indent=1).encode())


def read_state(store: Store, name: str) -> dict[str, Any] | None:
    """The last state with `alive`: whether its driver still runs. None if the sweep never ran."""
    note = read_note(store, name, STATE_FILE, StateNote, "what it said of earlier failures is forgotten")
    if note is None:
        return None
    state = note.model_dump()
    fresh = abs(time.time() - state["time"]) < FRESH_S  # a time in the future is that of a clock since set back
    state["alive"] = not state["finished"] and (_is_driver(state["pid"]) if _is_here(state) else fresh)
    return state


def other_driver(store: Store, name: str) -> str | None:
    """One line if another driver works on this sweep at this moment."""
    state = read_state(store, name)
    if state is None or not state["alive"] or (_is_here(state) and state["pid"] == os.getpid()):
        return None
    who = f"another driver (process {state['pid']} on {state['host']})"
    return f"{who} is at work on {name}; this one goes on beside it, and each uses what the other has made"


def _is_here(state: dict[str, Any]) -> bool:
    """Whether process numbers of that driver mean the same here: containers may share a host name."""
    return state["place"] == machine_id() if state["place"] else state["host"] == socket.gethostname()


def _is_driver(pid: int) -> bool:
    """Whether the process of that number is a driver still: numbers are used again."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any("smoothsweep" in word or "orchestrator" in word for word in words[:4])


def read_failures(store: Store, name: str) -> dict[str, str]:
    state = read_state(store, name)
    return state["failures"] if state else {}
