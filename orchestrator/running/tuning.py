"""The trials as Ray Tune proposes them. Each is a thread of this process that asks the scheduler for stages and waits.

Tune's own runner would give each a process, of some seconds of imports and 200 MiB, that does no more than that.
"""

from __future__ import annotations

import os
import queue
import threading
import uuid
from collections.abc import Callable
from typing import Any

import ray
from ray.tune.search import ConcurrencyLimiter, Searcher

from smoothsweep.orchestrator.planning.trial import Trial, run_trial, stages_to_start_early
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.stages.stage import Stage


class TrialSearcher(Searcher):
    """Tune's interface to a grid or a search: every suggestion is one trial of it.

    propose: the next trial; Wait where another must end before, None when nothing is left. ended: told of each that
    ends, with the cause of its failure or None.
    """

    def __init__(self, propose: Callable[[], Trial | Wait | None], ended: Callable[[Trial, str | None], None]) -> None:
        super().__init__()
        self.open: dict[str, Trial] = {}  # Tune's id -> trial
        self._propose, self._ended = propose, ended

    def suggest(self, trial_id: str) -> Any:
        trial = self._propose()
        if isinstance(trial, Wait):
            return None
        if trial is None:
            return Searcher.FINISHED
        self.open[trial_id] = trial
        return {"trial": trial.id}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._ended(self.open.pop(trial_id), (result or {}).get("failure"))

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the proposals lie in the store."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: every run begins with what the store has."""


class TrialThreads:
    """The trials at work: of those that are proposed, `slots` at a time."""

    def __init__(self, searcher: TrialSearcher, scheduler: Any, slots: int) -> None:
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of stages begun early for a trial that failed
        self.closed = False  # set: nothing more is proposed
        self._searcher, self._scheduler = searcher, scheduler
        self._limited = ConcurrencyLimiter(searcher, max_concurrent=slots)
        self._ended = queue.SimpleQueue[tuple[str, str | None]]()

    def begin(self) -> bool:
        """Start what is proposed now. False once nothing more is, and all have ended."""
        while True:
            tunes_id = uuid.uuid4().hex
            suggestion = Searcher.FINISHED if self.closed else self._limited.suggest(tunes_id)
            if not isinstance(suggestion, dict):
                return bool(self._searcher.open) or suggestion != Searcher.FINISHED
            threading.Thread(target=self._drive, args=(tunes_id,), name=f"trial-{tunes_id}", daemon=True).start()

    def ended(self, wait_s: float) -> list[tuple[str, str | None]]:
        """(Tune's id, failure or None) of those that have ended since, once there are some or the time is over."""
        try:
            over = [self._ended.get(timeout=wait_s)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            over.append(self._ended.get())
        return over

    def settle(self, tunes_id: str, failure: str | None) -> None:
        """Tell who proposed it how a trial has ended."""
        self._limited.on_trial_complete(tunes_id, {"failure": failure})

    def _drive(self, tunes_id: str) -> None:
        failure: str | None = "it ended without a result"
        try:
            failure = drive_trial(self._searcher.open[tunes_id], self._scheduler)
        finally:
            self._ended.put((tunes_id, failure))


def drive_trial(trial: Trial, scheduler: Any) -> str | None:
    """Have all stages of a trial made; their numbers lie in the store. Its failure in one line, or None."""
    early = dict[str, Any]()

    def ensure(stage: Stage) -> None:
        for source in stage.inputs.values():
            if source.fingerprint in early:  # what failed there is not tried a second time
                ray.get(early[source.fingerprint])
        ray.get(scheduler.ensure.remote(stage))

    try:
        early |= {stage.fingerprint: scheduler.ensure.remote(stage) for stage in stages_to_start_early(trial.stages)}
        run_trial(trial, ensure)
    except Exception as error:  # every cause becomes the trial's own, so that the others go on
        return one_line(error)
    return None
