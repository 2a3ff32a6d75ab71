"""Recording off the critical path: a thread that writes finished trials into MLflow while others still run."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from core.errors import InputError
from orchestrator.tracking import Tracker, tracking_errors
from orchestrator.trial import Trial

RETRY_AFTER_S = (1, 5, 15)


class Recorder:
    """Takes trials from the driver and writes them one by one. What it could not write is kept in `unwritten`.

    Nothing is lost when MLflow is away: the store holds every number, and running the sweep again records the rest.
    """

    def __init__(self, open_tracker: Callable[[], Tracker], name: str, tags: dict[str, str]) -> None:
        self.unwritten: dict[str, str] = {}  # trial id -> why
        self.parent: str | None = None
        self.tracker: Tracker | None = None
        self._open_tracker, self._name, self._tags = open_tracker, name, tags
        self._queue: queue.Queue[tuple[Trial, str | None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def add(self, trial: Trial, failure: str | None = None) -> None:
        self._queue.put((trial, failure))

    def finish(self) -> None:
        """Wait until everything added is written or given up."""
        self._queue.put(None)
        self._thread.join()

    def close(self, files: list[Path], *, failed: int) -> None:
        """Add the sweep's report to its parent run and end that run; after `finish`."""
        problem = self._try(lambda: self._close(files, failed))
        if problem:
            self.unwritten["report"] = problem

    def _close(self, files: list[Path], failed: int) -> None:
        tracker, parent = self.connection()
        tracker.close_sweep(parent, files, failed)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            trial, failure = item
            problem = self._try(lambda trial=trial, failure=failure: self._record(trial, failure))
            if problem:
                self.unwritten[trial.id] = problem

    def _record(self, trial: Trial, failure: str | None) -> None:
        tracker, parent = self.connection()
        tracker.record(trial, parent, failure)

    def connection(self) -> tuple[Tracker, str]:
        """The tracker and the id of the sweep's parent run, opened at first use."""
        if self.tracker is None or self.parent is None:
            self.tracker = self._open_tracker()
            self.parent = self.tracker.sweep_run(self._name, self._tags)
        return self.tracker, self.parent

    def _try(self, write: Callable[[], None]) -> str | None:
        """Write, with patience; the reason if it cannot be done. Once MLflow is away, later trials wait no more."""
        pauses = RETRY_AFTER_S if not self.unwritten else ()
        for pause in (*pauses, None):
            try:
                write()
                return None
            except (OSError, InputError, *tracking_errors()) as error:
                if pause is None:
                    return " ".join(str(error).split())[:300]
                time.sleep(pause)
        return None
