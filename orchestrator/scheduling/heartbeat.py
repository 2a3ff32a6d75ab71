"""Heartbeat of a stage in work, and when its silence is worth a line. Times are seconds of a monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

QUIET_S = 5 * 60.0
QUIET_TIMES = 5  # the longest silence that such work has shown so far


@dataclass(kw_only=True)
class Heartbeat:
    """usual_s: the longest time between two signs so far; at first what such a stage takes as a whole, if known."""

    last: float
    usual_s: float = 0.0
    _mark: Any = None
    _seen: bool = False
    _told_s: float = field(default=0.0, repr=False)

    def see(self, mark: Any, now: float) -> None:
        """Note what the stage shows now; whatever differs from the last time is a sign."""
        if mark == self._mark:
            return
        gap = now - self.last
        self.usual_s = max(self.usual_s, gap) if self._seen else gap
        self._mark, self._seen, self.last, self._told_s = mark, True, now, 0.0

    def silent_s(self, since: float, now: float) -> float:
        """How long nothing was seen of it. since: when its last task began: to wait for a device is no silence."""
        return now - max(self.last, since)

    def is_worth_a_line(self, since: float, now: float) -> bool:
        """Whether it is silent for long; once, and again whenever the silence has doubled."""
        silent = self.silent_s(since, now)
        if silent <= max(QUIET_S, QUIET_TIMES * self.usual_s, 2 * self._told_s):
            return False
        self._told_s = silent
        return True
