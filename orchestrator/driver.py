"""Running a sweep: share the data, start the trials through Ray Tune, watch, record, report."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import InputError
from orchestrator.execute import execute
from orchestrator.history import History, read_history
from orchestrator.plan import Plan, make_plan
from orchestrator.progress import Display, SweepState, duration
from orchestrator.recorder import Recorder
from orchestrator.stage import Stage
from orchestrator.state import read_failures, write_state
from orchestrator.store import Store
from orchestrator.trial import Trial

READ_HERE = ("data", "public")  # stages that read the user's files: done first, so that bad input stops everything
POLL_S = 0.5
STATE_EVERY_S = 2.0


@dataclass(kw_only=True)
class SweepRun:
    """One call of `smoothsweep run`: what is asked for, where it lies, what has happened."""

    name: str
    plan: Plan
    store: Store
    resources: dict[str, Any]
    recorder: Recorder
    display: Display
    failures: dict[str, str] = field(default_factory=dict)  # trial id -> cause
    state: SweepState = field(init=False)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        names = {stage.name for stage in self.plan.missing}
        self.history = read_history(self.store, names, known=self.plan.stages)
        self.state = SweepState(
            name=self.name,
            total_stages=len(self.plan.stages),
            done_stages=len(self.plan.stages) - len(self.plan.missing),
            total_trials=len(self.plan.trials),
        )
        self._todo = {stage.fingerprint: stage for stage in self.plan.missing}

    def stage_done(self, fingerprint: str, seconds: float) -> None:
        stage = self._todo.pop(fingerprint, None)
        if stage is not None:
            self.state.done_stages += 1
            self.history.add_stage(stage, seconds)

    def trial_done(self, trial: Trial, failure: str | None) -> None:
        """Note the outcome and hand the trial to the recorder."""
        if failure:
            self.failures[trial.id] = failure
            self.state.failed_trials += 1
            self.display.say(f"failed: {trial.label}: {failure}")
        else:
            self.state.done_trials += 1
        self.recorder.add(trial, failure)

    def forecast(self, parallel: int) -> None:
        mean, _, _, unknown = self.history.total(self._todo.values())
        self.state.seconds_left = mean / max(1, parallel) if not unknown else None

    def save_state(self, finished: bool = False) -> None:
        """Leave the state for `smoothsweep status`. A full disk fails the stages that need it, not the watching."""
        with contextlib.suppress(OSError):
            write_state(self.store.sweep_folder(self.name), self.state, self.failures, finished=finished)


def run_sweep(
    *,
    name: str,
    trials: list[Trial],
    store: Store,
    resources: dict[str, Any],
    address: str | None,
    recorder: Recorder,
    display: Display,
) -> SweepRun:
    """Finish every trial of the sweep that is not finished yet. Raises InputError where the user's data are wrong."""
    store.sweep_away_drafts()
    run = SweepRun(
        name=name, plan=make_plan(trials, store), store=store, resources=resources, recorder=recorder, display=display
    )
    missing = run.plan.missing
    display.say(
        f"{name}: {len(trials)} trials, {len(run.plan.stages)} stages, "
        f"{len(run.plan.stages) - len(missing)} already in {store.root}"
    )
    _read_input(run, [stage for stage in missing if stage.name in READ_HERE])
    pending = []
    for trial in trials:
        if run.plan.is_complete(trial):
            run.trial_done(trial, None)
        else:
            pending.append(trial)
    if pending:
        _run_pending(run, pending, address)
    run.save_state(finished=True)
    return run


def _read_input(run: SweepRun, stages: list[Stage]) -> None:
    """Prepare the data here and now: mistakes in them are the user's, and then nothing is left behind."""
    for stage in stages:
        started = time.monotonic()
        try:
            execute(run.store, stage)
        except InputError:
            for made in stages:
                shutil.rmtree(run.store.path(made), ignore_errors=True)
                shutil.rmtree(run.store.work(made), ignore_errors=True)
            raise
        run.stage_done(stage.fingerprint, time.monotonic() - started)


def _run_pending(run: SweepRun, pending: list[Trial], address: str | None) -> None:
    from orchestrator.cluster import HEAD, connect, disconnect
    from orchestrator.keeper import StageKeeper
    from orchestrator.tuning import tune_trials

    facts = connect(address, run.resources.get("trial_slots"))
    try:
        on_head = StageKeeper.options(resources={HEAD: 0.001})
        keeper = on_head.remote(run.store, run.resources, facts.cpus, facts.gpus)
        open_trials = {trial.id: trial for trial in pending}
        folder = run.store.sweep_folder(run.name) / "tune"
        tuning = _in_thread(lambda: tune_trials(dict(open_trials), keeper, folder, facts.trial_slots))
        with run.display:
            _watch(run, tuning, keeper, open_trials, parallel=int(facts.gpus) or facts.cpus)
        for trial in open_trials.values():  # whatever Tune lost on the way: the store knows
            complete = all(run.store.has(stage) for stage in trial.stages)
            run.trial_done(trial, None if complete else tuning.problem or "the trial ended without a result")
    finally:
        run.save_state()
        disconnect()
        run.store.sweep_away_drafts()  # of workers that were killed on the way


def _watch(
    run: SweepRun,
    tuning: _Background,
    keeper: Any,
    open_trials: dict[str, Trial],
    parallel: int,
) -> None:
    """Until Tune is through: poll the keeper, settle trials, refresh the display."""
    import ray

    saved_at, through = 0.0, False
    while not through:
        through = not tuning.is_alive()  # before the last look, so that nothing told meanwhile is missed
        snapshot = ray.get(keeper.snapshot.remote(), timeout=120)
        for event in snapshot["events"]:
            if event["what"] == "done":
                run.stage_done(event["fingerprint"], event["seconds"])
            elif event["what"] == "trial" and event["trial"] in open_trials:
                run.trial_done(open_trials.pop(event["trial"]), event["failure"])
        run.state.running = snapshot["running"]
        run.forecast(parallel)
        run.display.update(run.state)
        if time.monotonic() - saved_at > STATE_EVERY_S:
            run.save_state()
            saved_at = time.monotonic()
        tuning.join(POLL_S)


class _Background(threading.Thread):
    """A thread that keeps the reason why it ended early."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="tune", daemon=True)
        self._work, self.problem = work, ""

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # shown beside every trial it leaves open
            self.problem = f"Ray Tune stopped: {type(error).__name__}: {' '.join(str(error).split())}"[:400]


def _in_thread(work: Callable[[], None]) -> _Background:
    thread = _Background(work)
    thread.start()
    return thread


def earlier_failures(store: Store, name: str) -> dict[str, str]:
    """Trial id -> cause, as the last run of the sweep left them."""
    return read_failures(store.sweep_folder(name))


def closing_lines(run: SweepRun, seconds: float, report: Path) -> list[str]:
    """What to look at next."""
    lines = [f"{run.state.done_trials}/{run.state.total_trials} trials in {duration(seconds)}"]
    if run.failures:
        lines.append(f"{len(run.failures)} failed; the same command tries them again")
    return [*lines, f"report: {report}"]
