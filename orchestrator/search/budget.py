"""What a sweep has spent, over its whole life, and when that is enough.

    <store>/sweeps/<name>/spent.jsonl          per run and kind of stage: device-seconds; per run: wall-seconds
    <store>/sweeps/<name>/spent.copy.jsonl     the same: nothing else knows it, should the first be damaged

Both are replaced every two seconds with what runs at that moment counted in, so that a driver that is killed loses
no more than that.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from pydantic import BaseModel, Field

from orchestrator.store.base import Store
from orchestrator.store.notes import read_lines, write_lines
from sweeps.search import Budget

SPENT, COPY = "spent.jsonl", "spent.copy.jsonl"


class SpentLine(BaseModel, extra="forbid"):
    """Of one run: device-seconds of one kind of stage, or its wall-seconds."""

    run: int = Field(ge=1)
    stage: str | None = None
    device_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    wall_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Meter:
    """Counts device time and wall time of one sweep, earlier runs included."""

    def __init__(self, store: Store, name: str, budget: Budget | None) -> None:
        self.store, self.name, self.budget = store, name, budget
        self._earlier = _lines(store, name)
        self._run = 1 + max((line.get("run", 0) for line in self._earlier), default=0)
        self._done: dict[str, float] = {}  # kind of stage -> device-seconds of tasks that have ended
        self._running: dict[str, float] = {}
        self._started = time.monotonic()

    @property
    def device_s(self) -> float:
        """Device-seconds over the life of the sweep."""
        now = sum(self._done.values()) + sum(self._running.values())
        return now + sum(line.get("device_seconds", 0.0) for line in self._earlier)

    @property
    def wall_s(self) -> float:
        """Seconds during which the sweep was run."""
        now = time.monotonic() - self._started
        return now + sum(line.get("wall_seconds", 0.0) for line in self._earlier)

    def update(self, snapshot: dict[str, Any]) -> None:
        """Count what the scheduler tells of tasks that have ended and of those that run."""
        for event in snapshot["events"]:
            if event["what"] == "work":
                self._done[event["stage"]] = self._done.get(event["stage"], 0.0) + event["device_seconds"]
        self._running = {}
        for entry in snapshot["running"]:
            seconds = entry.get("device_seconds", 0.0)
            self._running[entry["stage"]] = self._running.get(entry["stage"], 0.0) + seconds

    def exceeded(self, kept: float = 0.0) -> str | None:
        """What is spent of what limit, in words, once that is all but the share `kept` (0 to 1); None before."""
        if self.budget is None:
            return None
        hours, minutes = self.budget.device_hours, self.budget.minutes
        if hours is not None and self.device_s >= 3600 * hours * (1 - kept):
            return f"{self.device_s / 3600:.3g} of {hours:g} device-hours"
        if minutes is not None and self.wall_s >= 60 * minutes * (1 - kept):
            return f"{self.wall_s / 60:.3g} of {minutes:g} minutes"
        return None

    def save(self) -> None:
        """Leave what was spent in the sweep's folder."""
        seconds = {kind: self._done.get(kind, 0.0) + self._running.get(kind, 0.0)
                   for kind in sorted({*self._done, *self._running})}  # fmt: skip
        lines = [
            *self._earlier,
            *({"run": self._run, "stage": kind, "device_seconds": round(s, 2)} for kind, s in seconds.items()),
            {"run": self._run, "wall_seconds": round(time.monotonic() - self._started, 2)},
        ]
        with contextlib.suppress(OSError):  # a full disk fails the stages that need it, not the watching
            for file in (SPENT, COPY):
                write_lines(self.store, self.name, file, lines)


def spent(store: Store, name: str) -> tuple[float, float]:
    """(device-seconds, wall-seconds) that the sweep has taken so far."""
    lines = _lines(store, name)
    return tuple(sum(line.get(key, 0.0) for line in lines) for key in ("device_seconds", "wall_seconds"))


def _lines(store: Store, name: str) -> list[dict[str, Any]]:
    found = read_lines(store, name, SPENT, [SpentLine], f"{COPY} is read in its place")
    found = found or read_lines(store, name, COPY, [SpentLine], "what was spent so far is forgotten")
    return [line.model_dump(exclude_none=True) for line in found]
