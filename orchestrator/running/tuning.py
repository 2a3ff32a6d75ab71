"""The trials as Ray Tune proposes them. Each is a thread of this process that asks the scheduler for stages and waits.

Tune's own runner would give each a process, of some seconds of imports and 200 MiB, that does no more than that.
"""

from __future__ import annotations

import contextlib
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

ASK_EVERY_S = 0.5  # for another proposal, where one has to wait


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


def tune_trials(searcher: TrialSearcher, scheduler: Any, slots: int, halt: threading.Event) -> None:
    """Have `slots` of the proposed trials worked on at a time, until there are no more and all have ended.

    halt: once it is set, nothing more is proposed. How a trial ended is told to the scheduler too, whom the sweep's
    driver asks.
    """
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of stages begun early for a trial that failed before
    limited, ended, at_work = ConcurrencyLimiter(searcher, max_concurrent=slots), queue.SimpleQueue[Any](), 0

    def drive(tunes_id: str, trial: Trial) -> None:
        failure = "it ended without a result"
        try:
            failure = drive_trial(trial, scheduler)
        finally:
            ended.put((tunes_id, failure))

    while True:
        tunes_id = uuid.uuid4().hex
        suggestion = Searcher.FINISHED if halt.is_set() else limited.suggest(tunes_id)
        if isinstance(suggestion, dict):
            at_work += 1
            trial = searcher.open[tunes_id]
            threading.Thread(target=drive, args=(tunes_id, trial), name=f"trial-{trial.id}", daemon=True).start()
            continue
        if not at_work and suggestion == Searcher.FINISHED:
            return
        with contextlib.suppress(queue.Empty):
            done, failure = ended.get(timeout=ASK_EVERY_S)
            at_work -= 1
            limited.on_trial_complete(done, {"failure": failure})


def drive_trial(trial: Trial, scheduler: Any) -> str | None:
    """Have all stages of a trial made; their numbers lie in the store. Its failure in one line, or None."""
    failure, early = None, dict[str, Any]()

    def ensure(stage: Stage) -> None:
        for source in stage.inputs.values():
            if source.fingerprint in early:  # what failed there is not tried a second time
                ray.get(early[source.fingerprint])
        ray.get(scheduler.ensure.remote(stage))

    try:
        early |= {stage.fingerprint: scheduler.ensure.remote(stage) for stage in stages_to_start_early(trial.stages)}
        run_trial(trial, ensure)
    except Exception as error:  # every cause becomes the trial's own, so that the others go on
        failure = one_line(error)
    ray.get(scheduler.trial_ended.remote(trial.id, failure))
    return failure
