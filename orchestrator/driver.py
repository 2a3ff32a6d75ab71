"""Running a sweep: share the data, start the trials through Ray Tune, watch, record. A search proposes as it goes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from orchestrator.execute import execute
from orchestrator.history import History, read_history
from orchestrator.plan import Plan, make_plan
from orchestrator.progress import Display, SweepState, duration
from orchestrator.recorder import Recorder
from orchestrator.search.agenda import Agenda
from orchestrator.search.budget import Meter
from orchestrator.stage import Stage, with_ancestors
from orchestrator.state import other_driver, read_failures, write_state
from orchestrator.store import Store
from orchestrator.trial import Trial
from orchestrator.workplace import Workplace
from sweeps.load import LoadedSweep

if TYPE_CHECKING:
    from orchestrator.tuning import Halt

READ_HERE = ("data", "public")  # stages that read the user's files: done first, so that bad input stops everything
POLL_S = 0.5
STATE_EVERY_S = 2.0


@dataclass(kw_only=True)
class SweepRun:
    """One call of `smoothsweep run`: what is asked for, where it lies, what has happened.

    failures: trial id -> cause. left_open: trials that a stop left unfinished. stopped: why the sweep was stopped
    before its end, None if it was not.
    """

    name: str
    plan: Plan
    store: Store
    resources: dict[str, Any]
    recorder: Recorder
    display: Display
    meter: Meter
    failures: dict[str, str] = field(default_factory=dict)
    left_open: dict[str, Trial] = field(default_factory=dict)
    stopped: str | None = None
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
        self._counted = {stage.fingerprint for stage in self.plan.stages}
        self._known = {trial.id for trial in self.plan.trials}

    def stage_done(self, fingerprint: str, seconds: float) -> None:
        stage = self._todo.pop(fingerprint, None)
        if stage is not None:
            self.state.done_stages += 1
            self.history.add_stage(stage, seconds)

    def take_up(self, trials: list[Trial]) -> None:
        """Count those trials that were not known when the run began."""
        new = [trial for trial in trials if trial.id not in self._known]
        self._known |= {trial.id for trial in new}
        for stage in with_ancestors([stage for trial in new for stage in trial.stages]):
            if stage.fingerprint not in self._counted:
                self._counted.add(stage.fingerprint)
                self.state.total_stages += 1
                if self.store.has(stage):
                    self.state.done_stages += 1
                else:
                    self._todo[stage.fingerprint] = stage
        self.state.total_trials += len(new)

    def trial_done(self, trial: Trial, failure: str | None) -> None:
        """Note the outcome and hand the trial to the recorder. What a stop left unfinished is open, not failed."""
        if failure and self.stopped:
            self.left_open[trial.id] = trial
            return
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
        self.meter.save()
        left = dict.fromkeys(self.left_open, f"budget: {self.stopped}")
        with contextlib.suppress(OSError):
            write_state(self.store, self.name, self.state, self.failures, finished=finished, stopped=left)


def begin_run(
    *,
    name: str,
    trials: list[Trial],
    store: Store,
    resources: dict[str, Any],
    recorder: Recorder,
    display: Display,
    meter: Meter,
) -> SweepRun:
    """A run of these trials, of which nothing has been started."""
    store.sweep_away_drafts()
    run = SweepRun(
        name=name,
        plan=make_plan(trials, store),
        store=store,
        resources=resources,
        recorder=recorder,
        display=display,
        meter=meter,
    )
    display.say(
        f"{name}: {len(trials)} trials, {len(run.plan.stages)} stages, "
        f"{len(run.plan.stages) - len(run.plan.missing)} already in {store.location}"
    )
    if other := other_driver(store, name):
        display.say(other)
    return run


def run_trials(run: SweepRun, trials: list[Trial], place: Workplace) -> None:
    """Finish every one of these trials that is not finished yet. Raises InputError where the user's data are wrong."""
    run.take_up(trials)
    plan = make_plan(trials, run.store)
    _read_input(run, plan.missing)
    pending = {}
    for trial in trials:
        if plan.is_complete(trial):
            run.trial_done(trial, None)
        else:
            pending[trial.id] = trial
    if not pending:
        return
    if _is_spent(run):
        run.left_open |= pending
        return
    from orchestrator.tuning import tune_trials

    keeper, slots, known = place.keeper, place.facts.trial_slots, dict(pending)
    folder = run.store.sweep_folder(run.name) / "tune"
    _watch(run, lambda halt: tune_trials(known, keeper, folder, slots, halt), place, pending)


def run_search(run: SweepRun, loaded: LoadedSweep, agenda: Agenda, place: Workplace) -> None:
    """Propose and finish recipes until the search ends. Raises InputError where the user's data are wrong."""
    _read_input(run, make_plan(agenda.preview(), run.store).missing)
    agenda.begin()
    if _is_spent(run):
        agenda.stop()
        _take_news(run, agenda, {})
    elif agenda.has_work():
        from orchestrator.tuning import tune_search

        keeper, slots = place.keeper, place.facts.trial_slots
        folder = run.store.sweep_folder(run.name) / "tune"
        _watch(run, lambda halt: tune_search(loaded, agenda, keeper, folder, slots, halt), place, {}, agenda)
    else:
        _take_news(run, agenda, {})
    if run.stopped:
        open_trials = agenda.waiting()
        run.take_up(open_trials)
        run.left_open |= {trial.id: trial for trial in open_trials}


def _is_spent(run: SweepRun) -> bool:
    """Whether the budget is used up, of which the run then says so."""
    run.stopped = run.stopped or run.meter.exceeded()
    return run.stopped is not None


def _read_input(run: SweepRun, missing: list[Stage]) -> None:
    """Prepare the data here and now: mistakes in them are the user's, and then nothing is left behind."""
    stages = [stage for stage in missing if stage.name in READ_HERE]
    for stage in stages:
        started = time.monotonic()
        try:
            execute(run.store, stage)
        except InputError:
            for made in stages:
                run.store.discard(made)
            raise
        run.stage_done(stage.fingerprint, time.monotonic() - started)


def _watch(
    run: SweepRun,
    work: Callable[[Halt], None],
    place: Workplace,
    open_trials: dict[str, Trial],
    agenda: Agenda | None = None,
) -> None:
    """Have Tune do the work; until it is through poll the keeper, settle trials, refresh the display, mind the budget.

    open_trials: what Tune was given; a search adds to it as it proposes.
    """
    import ray

    from orchestrator.tuning import Halt

    halt, keeper, parallel = Halt(), place.keeper, int(place.facts.gpus) or place.facts.cpus
    tuning = _in_thread(lambda: work(halt))
    saved_at, through = 0.0, False
    try:
        with run.display:
            while not through:
                through = not tuning.is_alive()  # before the last look, so that nothing told meanwhile is missed
                snapshot = ray.get(keeper.snapshot.remote(), timeout=120)
                _take_news(run, agenda, open_trials)  # after it: what has ended was opened before
                _take_events(run, snapshot, open_trials)
                if run.stopped is None and (reason := run.meter.exceeded()):
                    _stop(run, keeper, halt, agenda, reason)
                run.forecast(parallel)
                run.display.update(run.state)
                if time.monotonic() - saved_at > STATE_EVERY_S:
                    run.save_state()
                    saved_at = time.monotonic()
                tuning.join(POLL_S)
        for trial in open_trials.values():  # whatever Tune lost on the way: the store knows
            complete = all(run.store.has(stage) for stage in trial.stages)
            run.trial_done(trial, None if complete else tuning.problem or "the trial ended without a result")
        if agenda is not None and tuning.problem:
            run.failures["search"] = tuning.problem
            run.display.say(tuning.problem)
    finally:
        run.save_state()


def _take_events(run: SweepRun, snapshot: dict[str, Any], open_trials: dict[str, Trial]) -> None:
    """What the keeper tells: stages and trials that have ended, work that was done, what runs."""
    run.meter.update(snapshot)
    for event in snapshot["events"]:
        if event["what"] == "done":
            run.stage_done(event["fingerprint"], event["seconds"])
        elif event["what"] == "trial" and event["trial"] in open_trials:
            run.trial_done(open_trials.pop(event["trial"]), event["failure"])
    run.state.running = snapshot["running"]


def _take_news(run: SweepRun, agenda: Agenda | None, open_trials: dict[str, Trial]) -> None:
    """What the search tells: trials that it has opened or found in the store, and what it has to say."""
    while agenda is not None and not agenda.news.empty():
        kind, what = agenda.news.get()
        if kind == "say":
            run.display.say(what)
            continue
        run.take_up([what])
        if kind == "opened":
            open_trials[what.id] = what
        else:
            run.trial_done(what, None)


def _stop(run: SweepRun, keeper: Any, halt: Halt, agenda: Agenda | None, reason: str) -> None:
    """End what runs and start nothing more."""
    import ray

    run.stopped = reason
    run.display.say(f"budget: {reason} are spent; ending what runs")
    if agenda is not None:
        agenda.stop()
    halt.pull()
    with contextlib.suppress(ray.exceptions.GetTimeoutError):  # a busy node: the keeper goes on ending what runs
        ray.get(keeper.stop.remote(f"budget: {reason}"), timeout=120)


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
    return read_failures(store, name)


def closing_lines(run: SweepRun, seconds: float, report: Path | None, *, may_end: bool) -> list[str]:
    """What to look at next. report: None where there is none. may_end: a spent budget is one of the sweep's ends."""
    lines = [f"{run.state.done_trials}/{run.state.total_trials} trials in {duration(seconds)}"]
    if run.stopped:
        left = f"; {len(run.left_open)} trials are open" if run.left_open else ""
        more = "goes on from here" if may_end else "finishes them"
        lines.append(f"budget: {run.stopped} are spent{left}; the same command with a larger budget {more}")
    if run.failures:
        lines.append(f"{len(run.failures)} failed; the same command tries them again")
    return [*lines, *([f"report: {report}"] if report else [])]
