"""What a sweep has spent, over its whole life, and when that is enough.

    <store>/sweeps/<name>/spent.jsonl      one line per task that has ended: stage, fingerprint, device-seconds
    <store>/sweeps/<name>/running.json     what runs now, replaced as the sweep's state is; a driver that was killed
                                           leaves it, and the next one adds it to what was spent
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from orchestrator.store import Store, write_atomically
from sweeps.search import Budget

SPENT, RUNNING = "spent.jsonl", "running.json"


class Meter:
    """Counts device time and wall time of one sweep, earlier runs included."""

    def __init__(self, store: Store, name: str, budget: Budget | None) -> None:
        self.folder, self.budget = store.sweep_folder(name), budget
        self._adopt()
        self.earlier_device_s, self.earlier_wall_s = spent(store, name)
        self.device_s = 0.0  # of tasks that ended in this run
        self.running_s = 0.0
        self._running: list[dict[str, Any]] = []
        self._started = time.monotonic()

    @property
    def total_device_s(self) -> float:
        return self.earlier_device_s + self.device_s + self.running_s

    @property
    def total_wall_s(self) -> float:
        return self.earlier_wall_s + time.monotonic() - self._started

    def update(self, snapshot: dict[str, Any]) -> None:
        """Count what the keeper tells."""
        ended = [event for event in snapshot["events"] if event["what"] == "work"]
        self._running = [entry for entry in snapshot["running"] if entry.get("device_seconds")]
        self.running_s = sum(entry["device_seconds"] for entry in self._running)
        for event in ended:
            self.device_s += event["device_seconds"]
            self._append({key: event[key] for key in ("stage", "fingerprint", "device_seconds")})

    def add(self, stage: str, fingerprint: str, seconds: float) -> None:
        """Count work that was done without the keeper."""
        self.device_s += seconds
        self._append({"stage": stage, "fingerprint": fingerprint, "device_seconds": seconds})

    def exceeded(self) -> str | None:
        """Which part of the budget is spent, in words, or None."""
        if self.budget is None:
            return None
        hours, minutes = self.budget.device_hours, self.budget.minutes
        if hours is not None and self.total_device_s >= 3600 * hours:
            return f"{self.total_device_s / 3600:.3g} of {hours:g} device-hours"
        if minutes is not None and self.total_wall_s >= 60 * minutes:
            return f"{self.total_wall_s / 60:.3g} of {minutes:g} minutes"
        return None

    def save(self) -> None:
        """Note what runs, for a run after this one should it be killed."""
        note = {
            "running": [{k: e[k] for k in ("stage", "fingerprint", "device_seconds")} for e in self._running],
            "wall_seconds": time.monotonic() - self._started,
        }
        with contextlib.suppress(OSError):  # a full disk fails the stages that need it, not the watching
            write_atomically(self.folder / RUNNING, json.dumps(note).encode())

    def close(self) -> None:
        """End of this run: nothing runs any more."""
        self.save()
        self._adopt()

    def _adopt(self) -> None:
        """What the last note says was running has been spent."""
        path = self.folder / RUNNING
        try:
            note = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            return
        for entry in note["running"]:
            self._append(entry)
        self._append({"wall_seconds": note["wall_seconds"]})
        path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / SPENT).open("a") as file:
                file.write(json.dumps({**line, "time": round(time.time(), 1)}) + os.linesep)


def spent(store: Store, name: str) -> tuple[float, float]:
    """(device-seconds, wall-seconds) that the sweep has taken so far, a run that goes on at this moment included."""
    device_s = wall_s = 0.0
    folder = store.sweep_folder(name)
    for line in _lines(folder / SPENT):
        device_s += line.get("device_seconds", 0.0)
        wall_s += line.get("wall_seconds", 0.0)
    for note in _lines(folder / RUNNING):
        device_s += sum(entry["device_seconds"] for entry in note["running"])
        wall_s += note["wall_seconds"]
    return device_s, wall_s


def _lines(path: Path) -> list[dict[str, Any]]:
    """Complete JSON lines of a file; none where there is no file."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):  # cut off by a crash
                found.append(json.loads(line))
    return found
