"""Running a sweep: share the data, start the trials that Ray Tune proposes, watch, record.

Their stages are made in a Ray cluster by the scheduler on it, connected when first needed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError, StoreGone
from smoothsweep.core.same_code import only_this_code
from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.cluster.interrupts import (
    ClusterLost,
    Lifeline,
    explaining_rays_errors,
    lifeline_of_this_driver,
)
from smoothsweep.orchestrator.planning.plan import refuse_unfit
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.running.sweep_run import SweepRun
from smoothsweep.orchestrator.scheduling.execute import execute
from smoothsweep.orchestrator.search.agenda import Agenda
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.schema import Resources

if TYPE_CHECKING:
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts
    from smoothsweep.orchestrator.running.tuning import TrialSearcher

READ_HERE = ("data", "public")  # stages that read the user's files: done first, so that bad input stops everything
POLL_S = 0.5
STATE_EVERY_S = 2.0
PATIENCE_S = 30.0  # for trials to end


def run_trials(run: SweepRun, trials: list[Trial], place: ClusterSession) -> None:
    """Finish every one of these trials that is not finished yet. Raises InputError where the user's data are wrong."""
    run.add_trials(trials)
    pending = {trial.id: trial for trial in trials if run.is_open(trial)}
    _read_input(run, run.missing(trials))
    for trial in trials:
        if trial.id not in pending:
            run.trial_done(trial, None)
    if not pending:
        return
    if _is_spent(run):
        run.left_open |= pending
        return
    from smoothsweep.orchestrator.running.tuning import TrialSearcher

    grid = iter(list(pending.values()))
    _watch(run, TrialSearcher(lambda: next(grid, None), lambda *_: None), place, pending)


def run_search(run: SweepRun, agenda: Agenda, place: ClusterSession) -> None:
    """Propose and finish recipes until the search ends. Raises InputError where the user's data are wrong."""
    _read_input(run, run.looked_up(agenda.preview()).missing)
    agenda.begin()
    if _is_spent(run):
        agenda.stop()
    else:
        _keep_reserve(run, agenda)
    if not run.stopped and agenda.has_work():
        from smoothsweep.orchestrator.running.tuning import TrialSearcher

        _watch(run, TrialSearcher(agenda.next, agenda.ended), place, {}, agenda)
    else:
        _take_news(run, agenda, {})
    if run.stopped:
        open_trials = agenda.waiting()
        run.add_trials(open_trials)
        run.left_open |= {trial.id: trial for trial in open_trials}


def _keep_reserve(run: SweepRun, agenda: Agenda) -> None:
    """Have the search propose nothing more once only the re-audit's share of the budget is left."""
    if run.reserved and not agenda.closed and (reason := run.meter.exceeded(run.reserved)):
        agenda.close(reason)
        run.display.say(f"budget: {reason} are spent, the rest is kept for the re-audit; no more recipes are proposed")


def _is_spent(run: SweepRun) -> bool:
    """Whether the budget is used up, of which the run then says so."""
    run.stopped = run.stopped or run.meter.exceeded()
    return run.stopped is not None


def _read_input(run: SweepRun, missing: list[Stage]) -> None:
    """Prepare the data here and now: mistakes in them are the user's, and then nothing is left behind."""
    stages = [stage for stage in missing if stage.name in READ_HERE and not run.store.has(stage)]
    for stage in stages:
        started = time.monotonic()
        try:
            with only_this_code(run.code):
                execute(run.store, stage)
        except InputError:
            for made in stages:
                run.store.discard(made)
            raise
        run.stage_done(stage.fingerprint, time.monotonic() - started)


def _watch(
    run: SweepRun,
    searcher: TrialSearcher,
    place: ClusterSession,
    open_trials: dict[str, Trial],
    agenda: Agenda | None = None,
) -> None:
    """Have what Tune proposes done; until then poll the scheduler, settle trials, refresh the display, mind the budget.

    open_trials: what Tune was given; a search adds to it as it proposes.
    """
    import ray
    import ray.exceptions

    from smoothsweep.orchestrator.running.tuning import tune_trials

    halt, scheduler, parallel = threading.Event(), place.scheduler, int(place.facts.gpus) or place.facts.cpus
    tuning = _Background(lambda: tune_trials(searcher, scheduler, place.facts.trial_slots, halt))
    tuning.start()
    saved_at, through = 0.0, False
    try:
        with explaining_rays_errors(), run.display:
            while not through:
                interrupts.check()
                run.store.check_there()
                through = not tuning.is_alive()  # before the last look, so that nothing told meanwhile is missed
                snapshot = ray.get(scheduler.snapshot.remote(), timeout=120)
                _take_news(run, agenda, open_trials)  # after it: what has ended was opened before
                _take_events(run, snapshot, open_trials)
                if run.stopped is None and (reason := run.meter.exceeded()):
                    run.stopped = reason
                    run.display.say(f"budget: {reason} are spent; ending what runs")
                    if agenda is not None:
                        agenda.stop()
                    _end(scheduler, halt, f"budget: {reason}", patience=120)
                elif agenda is not None and run.stopped is None:
                    _keep_reserve(run, agenda)
                run.forecast(parallel)
                run.display.update(run.state)
                if time.monotonic() - saved_at > STATE_EVERY_S:
                    run.save_state()
                    saved_at = time.monotonic()
                tuning.join(POLL_S)
        for trial in open_trials.values():  # whatever was lost on the way: the store knows
            complete = all(run.store.has(stage) for stage in trial.stages)
            run.trial_done(trial, None if complete else tuning.problem or "the trial ended without a result")
        if agenda is not None and tuning.problem:
            run.failures["search"] = tuning.problem
            run.display.say(tuning.problem)
    except StoreGone:
        _end(scheduler, halt, "the store has disappeared", patience=60)
        tuning.join(PATIENCE_S)
        raise
    finally:
        run.save_state()


def _take_events(run: SweepRun, snapshot: dict[str, Any], open_trials: dict[str, Trial]) -> None:
    """What the scheduler tells: stages and trials that have ended, work that was done, what runs."""
    run.meter.update(snapshot)
    for event in snapshot["events"]:
        if event["what"] == "say":
            run.display.say(event["line"])
        elif event["what"] == "work":
            run.worked[event["fingerprint"]] += event["seconds"]
        elif event["what"] == "done":
            run.stage_done(event["fingerprint"], run.worked[event["fingerprint"]])
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
        run.add_trials([what])
        if kind == "opened":
            open_trials[what.id] = what
        else:
            run.trial_done(what, None)


def _end(scheduler: Any, halt: threading.Event, reason: str, *, patience: float) -> None:
    """Start nothing more and end what runs; on a busy node the scheduler goes on ending it after our patience."""
    import ray

    halt.set()
    with contextlib.suppress(ray.exceptions.GetTimeoutError, ray.exceptions.RayError):
        ray.get(scheduler.stop.remote(reason), timeout=patience)


class _Background(threading.Thread):
    """A thread that keeps the reason why it ended early."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="tune", daemon=True)
        self._work, self.problem = work, ""

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # shown beside every trial it leaves open
            self.problem = f"nothing more is proposed: {type(error).__name__}: {' '.join(str(error).split())}"[:400]


class ClusterSession:
    """Use as a context manager: what was connected is let go of at the end."""

    def __init__(
        self,
        address: str | None,
        resources: Resources,
        store: Store,
        to_run: Iterable[Stage] = (),
        *,
        code: str | None = None,
    ) -> None:
        """to_run: stages that the cluster must be able to do; `facts` and `scheduler` raise InputError if it cannot.

        code: digest of the code that its workers must have, None for any.
        """
        self._address, self._resources, self._store, self._to_run = address, resources, store, to_run
        self._code = code
        self._lifeline: Lifeline | None = None  # from when there is something to let go of

    def __enter__(self) -> ClusterSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._lifeline is None:
            return
        from smoothsweep.orchestrator.cluster.connection import end_work, stop_ray

        self._lifeline.close()
        if kind is ClusterLost:
            return
        if kind is KeyboardInterrupt and "scheduler" in vars(self):
            end_work(self.scheduler)
        if interrupts.end_requested():
            return  # Ray ends with the process (`interrupts.leave`): its own shutdown would meet trials at work
        stop_ray()
        self._store.sweep_away_drafts()  # of workers that were killed on the way

    @property
    def is_named_cluster(self) -> bool:
        """Whether there is a cluster to join, not one to start here."""
        return bool(self._address or os.environ.get("RAY_ADDRESS"))

    @cached_property
    def facts(self) -> ClusterFacts:
        """What the cluster offers. Raises InputError if there is none at the address, or if it cannot do the work."""
        from smoothsweep.orchestrator.cluster.connection import connect

        facts = connect(self._address, self._resources.trial_slots)
        self._lifeline = lifeline_of_this_driver()
        refuse_unfit(facts, self._resources, self._to_run)
        return facts

    @cached_property
    def scheduler(self) -> Any:
        """The actor that makes stages."""
        facts = self.facts
        from smoothsweep.orchestrator.cluster.connection import HEAD
        from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler

        on_head = StageScheduler.options(resources={HEAD: 0.001})
        return on_head.remote(self._store, self._resources.model_dump(), facts.cpus, facts.gpus, code=self._code)
