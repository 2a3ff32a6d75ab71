"""Recording off the critical path: a thread that writes finished trials into MLflow while others still run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import note
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.sweep_result import SweepResult
from smoothsweep.orchestrator.stages.stage import code_version
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.server import error_line, local_uri, refusals, tracking_errors
from smoothsweep.orchestrator.tracking.tracker import Tracker
from smoothsweep.sweeps.expand import LoadedSweep

REPORT = "report"  # among what is not written: the report, the means over seeds, the models


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds.

    Attributes:
        first, most: Pauses between attempts while MLflow is away, doubled each time; it is tried for the rest of the
            sweep.
        finish: How long the end of a sweep waits without anything getting written.
        refusals: How often one trial may be refused by an MLflow that answers before the others go on without it.
    """

    first: float = 1.0
    most: float = 30.0
    finish: float = 60.0
    refusals: int = 3


class Recorder:
    """Takes trials from the driver and writes them one by one. What it could not write is in `unwritten`.

    Nothing is lost and nothing waits when MLflow is away: the store holds every number, here are kept the ids of the
    trials still to be written, and running the sweep again records what is missing without running anything.
    """

    def __init__(
        self,
        open_tracker: Callable[[], Tracker],
        name: str,
        tags: dict[str, str],
        *,
        models: str = "none",
        patience: Patience | None = None,
        error_line: Callable[[BaseException], str] = str,
    ) -> None:
        """models: which targets to register at the end, see `orchestrator.tracking.runs.candidates`.

        error_line: what an error of the tracker says to a person.
        """
        self.unwritten: dict[str, str] = {}  # trial id, or REPORT -> why
        self.remarks: list[str] = []  # what the user should know and that no later run would change
        self.parent: str | None = None
        self.tracker: Tracker | None = None
        self._open_tracker, self._name, self._tags, self._models = open_tracker, name, tags, models
        self._patience, self._error_line = patience or Patience(), error_line
        self._waiting: dict[str, Any] = {}  # trial id -> (trial, failure), as they came; REPORT -> how the sweep ended
        self._refused: dict[str, int] = {}
        self._problem = ""  # the last, while MLflow is away
        self._moved_at = time.monotonic()  # when something was last written
        self._given_up = False
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="recorder", daemon=True).start()

    def add(self, trial: Trial, failure: str | None = None) -> None:
        """Have the trial recorded. Returns at once."""
        with self._changed:
            self._waiting.pop(trial.id, None)
            self._waiting[trial.id] = trial, failure
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until everything added is written; not for an MLflow that stays away."""
        with self._changed:
            self._moved_at = time.monotonic()
            while self._waiting and not self._given_up and time.monotonic() - self._moved_at < self._patience.finish:
                self._changed.wait(timeout=0.2)
            self.unwritten.update(dict.fromkeys(self._waiting, self._problem or "MLflow does not answer"))

    def close(
        self,
        trials: Sequence[Trial],
        files: Sequence[Path] = (),
        *,
        failed: int,
        result: SweepResult | None = None,
        wall_s: float = 0.0,
    ) -> None:
        """Add the means over seeds, the report, its verdicts and the models, and end the sweep's run; after `finish`.

        The arguments are those of `Tracker.close_sweep`.
        """
        with self._changed:
            if self._waiting:  # it has not answered for as long as we wait
                self.unwritten[REPORT] = self._problem or "MLflow does not answer"
            else:
                how = {"files": files, "failed": failed, "result": result, "wall_s": wall_s}
                self._waiting[REPORT] = {"trials": trials, **how}
                self._changed.notify_all()
                self.finish()
            self._given_up = True
            self._changed.notify_all()

    def connection(self) -> tuple[Tracker, str]:
        """The tracker and the id of the sweep's parent run, opened at first use. InputError if there is no MLflow."""
        if self.tracker is None:
            self.tracker = self._open_tracker()
            self.tracker.progress = self._moved
        if self.parent is None:
            self.parent = self.tracker.sweep_run(self._name, self._tags)
        return self.tracker, self.parent

    def _work(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # said at the end beside what it leaves unwritten; the sweep itself goes on
            with self._changed:
                self._problem, self._given_up = f"{type(error).__name__}: {self._line(error)}"[:300], True
                self._changed.notify_all()

    def _write_all(self) -> None:
        pause = self._patience.first
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._given_up)
                if self._given_up:
                    return
                oldest = next(iter(self._waiting))
                what = self._waiting[oldest]
            if self._attempt(oldest, what):
                pause = self._patience.first
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._given_up, timeout=pause)
            pause = min(2 * pause, self._patience.most)

    def _attempt(self, key: str, what: Any) -> bool:
        """Write a trial, or the end of the sweep. False while MLflow is away."""
        refusal = None
        try:
            if self._problem and self.tracker is not None:
                self.tracker.refresh()  # a request that seemed lost may have arrived
                self.parent = None
            tracker, parent = self.connection()
            if key == REPORT:
                self.remarks += tracker.close_sweep(parent, **what, models=self._models)
            else:
                trial, failure = what
                tracker.record(trial, parent, failure)
        except (OSError, InputError, *tracking_errors()) as error:
            answers = self.tracker is not None and self.tracker.answers()
            with self._changed:
                self._problem = self._line(error)
                self._refused[key] = self._refused.get(key, 0) + answers
                if self._refused[key] < self._patience.refusals:
                    return False
                refusal, what = self._problem, self._waiting.get(key)  # it answers, and refuses this one thing
        with self._changed:
            self.unwritten.pop(key, None)  # what came late, when nobody waited any more, is written
            self.unwritten |= {} if refusal is None else {key: refusal}
            self._problem, self._moved_at = "", time.monotonic()
            if self._waiting.get(key) == what:  # else it was added again meanwhile
                self._waiting.pop(key, None)
            self._changed.notify_all()
        return True

    def _line(self, error: BaseException) -> str:
        return " ".join(self._error_line(error).split())[:300]

    def _moved(self) -> None:
        self._moved_at = time.monotonic()


def open_recorder(loaded: LoadedSweep, store: Store, tracking_uri: str | None, *, models: str = "frontier") -> Recorder:
    """A recorder for this sweep. A tracking URI that the user gave must answer now: InputError before work starts."""
    uri = local_uri(store) if tracking_uri is None else tracking_uri
    open_tracker = partial(Tracker, uri, store=store, experiment=loaded.sweep.name, loaded=loaded)
    tags = {
        "mlflow.note.content": note(loaded.intro or loaded.sweep.name),
        "smoothsweep.sweep_file": loaded.source,
        "smoothsweep.code": code_version(),
        "smoothsweep.seeds": ", ".join(map(str, loaded.sweep.every_seed)),
        **{f"smoothsweep.grid.{key}": str(values)[:4000] for key, values in loaded.sweep.grid.items()},
    }
    recorder = Recorder(
        open_tracker, loaded.sweep.name, tags, models=models, error_line=lambda error: error_line(error, uri)
    )
    if tracking_uri is not None:
        with refusals(uri):
            recorder.connection()
    return recorder
