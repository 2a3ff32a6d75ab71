"""How long a task may take: what the sweep file says, else a default that no honest stage meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.durations import duration
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store

FLOOR_S = 30 * 60.0
TIMES = 20  # what such a stage has taken: machines differ by less
UNKNOWN_S = 72 * 3600.0  # where nothing alike was measured on such a device
BEGIN_S = 10 * 60.0  # for a worker to begin a task that it was given: a moment, unless the process was stopped
SETUP_S = 10 * 60.0  # for it to load torch and the stage's code: minutes on a cold network disk


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How long a task may take, in seconds.

    Attributes:
        total_s: Time from the start, whatever happens; None for no such limit.
        silent_s: Time since the last sign of life.
    """

    total_s: float | None
    silent_s: float | None
    setting: str | None

    def reason(self) -> str:
        """What is said of a task that this limit has ended."""
        if self.total_s is not None:
            return f"ran longer than {self.setting} allows ({duration(self.total_s)}), and was ended"
        setting_note = f"; {self.setting} sets a limit of its own" if self.setting else ""
        return f"gave no sign of life for {duration(present(self.silent_s, 'silent s'))}, and was ended{setting_note}"


class Limits:
    """The limits of every stage of a sweep. resources: its `resources` as a mapping."""

    def __init__(self, store: Store, resources: dict[str, Any]) -> None:
        self._history, self._resources = History(store), resources

    def of(self, stage: Stage, expected_s: float | None) -> Limit:
        """The sweep file's time-out; without one, silence for `TIMES` what such a stage takes, half an hour at least.

        Silence, not time: what an estimate is worth is not known, but a stage that goes on leaving marks is at work.
        """
        kind = "training" if stage.task.trains else "attack"
        setting = f"resources.{kind}_timeout_minutes" if _has_setting(stage) else None
        minutes = self._resources.get(setting.removeprefix("resources.")) if setting else None
        if minutes is not None:
            return Limit(total_s=60 * minutes, silent_s=None, setting=setting)
        silent_s = UNKNOWN_S if expected_s is None else max(FLOOR_S, TIMES * expected_s)
        return Limit(total_s=None, silent_s=silent_s, setting=setting)

    def expected_s(self, stage: Stage, device: str) -> float | None:
        """The longest that such a stage has taken on such a device ('cpu' or 'cuda'); None if none is known.

        Reads manifests: not for the event loop.
        """
        known = self._history.devices(stage.name) == {device}
        expected = self._history.expected(stage) if known else None
        return None if expected is None else expected[2]


def _has_setting(stage: Stage) -> bool:
    return stage.task.trains or stage.task.shard is not None
