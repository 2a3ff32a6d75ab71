"""What a sweep has spent, over its whole life and by all of its drivers, and when that is enough.

    <store>/sweeps/<name>/spent/<run>.jsonl         of one run, per kind of stage: device-seconds; its wall-seconds
    <store>/sweeps/<name>/spent/<run>.copy.jsonl    the same: nothing else knows it, should the first be damaged

Each run replaces its own two notes every two seconds with what runs at that moment counted in, so that a driver that
is killed loses no more than that. It reads those of the others, which may be at work at the same time, as often.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, write_lines
from smoothsweep.sweeps.limits import Budget

FOLDER, NOTE, COPY = "spent", ".jsonl", ".copy.jsonl"
LOOK_EVERY_S = 5.0
SETTLED_S = 60.0  # a run that has written nothing new for so long has ended, or hangs

Lines = list[dict[str, Any]]


class SpentLine(BaseModel, extra="forbid"):
    """What one run spent: device-seconds of one kind of stage, or its wall-seconds and when they began, in seconds
    since 1970.
    """

    stage: str | None = None
    device_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    wall_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    began: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Meter:
    """Counts device time and wall time of one sweep, those of earlier runs and of other drivers included."""

    def __init__(self, store: Store, name: str, budget: Budget | None) -> None:
        self.store, self.name, self.budget = store, name, budget
        self._own = f"{FOLDER}/{uuid.uuid4().hex[:12]}"
        self._others = _OtherRuns(store, name, besides=self._own)
        self._others.look()
        self._done: dict[str, float] = {}  # kind of stage -> device-seconds of tasks that have ended
        self._running: dict[str, float] = {}
        self._began, self._started = time.time(), time.monotonic()

    @property
    def device_s(self) -> float:
        """Device-seconds over the life of the sweep."""
        return _device_s([*self._others.lines, *self._lines()])

    @property
    def wall_s(self) -> float:
        """Seconds during which the sweep was run, by however many drivers at once."""
        return _wall_s([*self._others.lines, *self._lines()])

    def update(self, snapshot: dict[str, Any]) -> None:
        """Count what the scheduler tells of tasks that have ended and of those that run."""
        for event in snapshot["events"]:
            if event["what"] == "work":
                self._done[event["stage"]] = self._done.get(event["stage"], 0.0) + event["device_seconds"]
        self._running = {}
        for entry in snapshot["running"]:
            seconds = entry.get("device_seconds", 0.0)
            self._running[entry["stage"]] = self._running.get(entry["stage"], 0.0) + seconds
        self._others.look(LOOK_EVERY_S)

    def exceeded(self, reserved: float = 0.0) -> str | None:
        """What is spent of what limit, in words, once that is all but the share `kept` (0 to 1); None before."""
        if self.budget is None:
            return None
        hours, minutes = self.budget.device_hours, self.budget.minutes
        if hours is not None and self.device_s >= 3600 * hours * (1 - reserved):
            return f"{self.device_s / 3600:.3g} of {hours:g} device-hours"
        if minutes is not None and self.wall_s >= 60 * minutes * (1 - reserved):
            return f"{self.wall_s / 60:.3g} of {minutes:g} minutes"
        return None

    def save(self) -> None:
        """Leave what this run spent in the sweep's folder."""
        with contextlib.suppress(OSError):  # a full disk fails the stages that need it, not the watching
            for ending in (NOTE, COPY):
                write_lines(self.store, self.name, self._own + ending, self._lines())

    def _lines(self) -> Lines:
        seconds = {
            kind: self._done.get(kind, 0.0) + self._running.get(kind, 0.0)
            for kind in sorted({*self._done, *self._running})
        }
        wall = round(time.monotonic() - self._started, 2)
        return [
            *({"stage": kind, "device_seconds": round(s, 2)} for kind, s in seconds.items()),
            {"wall_seconds": wall, "began": round(self._began, 2)},
        ]


class _OtherRuns:
    """What the notes of all runs but one say."""

    def __init__(self, store: Store, name: str, besides: str = "") -> None:
        self._store, self._name, self._besides = store, name, besides
        self._known: dict[str, tuple[Lines, float]] = {}  # note -> what it says, and when it last said something new
        self._looked = -1e9

    @property
    def lines(self) -> Lines:
        return [line for lines, _ in self._known.values() for line in lines]

    def look(self, every_s: float = 0.0) -> None:
        """Read what may have changed, unless that was done within `every_s`."""
        now = time.monotonic()
        if now - self._looked < every_s:
            return
        self._looked = now
        with contextlib.suppress(OSError):  # the store is away: what was known last stands
            for note in self._notes():
                before, since = self._known.get(note, ([], now))
                if note in self._known and now - since > SETTLED_S and every_s:
                    continue
                lines = _lines(self._store, self._name, note)
                self._known[note] = (lines, since if note in self._known and lines == before else now)

    def _notes(self) -> list[str]:
        """Every run's note, without its ending."""
        names = self._store.note_names(self._name, FOLDER)
        runs = {f"{FOLDER}/{name.removesuffix(COPY).removesuffix(NOTE)}" for name in names if name.endswith(NOTE)}
        return sorted(runs - {self._besides})


def spent(store: Store, name: str) -> tuple[float, float]:
    """(device-seconds, wall-seconds) that the sweep has taken so far."""
    other_runs = _OtherRuns(store, name)
    other_runs.look()
    return _device_s(other_runs.lines), _wall_s(other_runs.lines)


def hours_left(store: Store, name: str, budget: Budget | None) -> float | None:
    """Device-hours that are left of a sweep's budget; None where it has none."""
    if budget is None or budget.device_hours is None:
        return None
    return max(0.0, budget.device_hours - spent(store, name)[0] / 3600)


def _device_s(lines: Iterable[dict[str, Any]]) -> float:
    return sum(line.get("device_seconds", 0.0) for line in lines)


def _wall_s(lines: Iterable[dict[str, Any]]) -> float:
    """Wall-seconds, counted once for runs at the same time, and in full for runs that do not say when they began."""
    total, until = 0.0, float("-inf")
    for began, seconds in sorted((line.get("began", -1.0), line.get("wall_seconds", 0.0)) for line in lines):
        if began < 0:
            total += seconds
            continue
        total += max(0.0, began + seconds - max(began, until))
        until = max(until, began + seconds)
    return total


def _lines(store: Store, name: str, note: str) -> Lines:
    first, copy = note + NOTE, note + COPY
    lines = read_lines(store, name, first, [SpentLine], f"{copy} is read in its place")
    lines = lines or read_lines(store, name, copy, [SpentLine], "what was spent so far is forgotten")
    return [line.model_dump(exclude_none=True) for line in lines]
