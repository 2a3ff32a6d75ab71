"""Running a sweep: share the data, start the trials that Ray Tune proposes, watch, record.

Their stages are made in a Ray cluster by the scheduler on it, connected when first needed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable
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
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.schema import Resources

if TYPE_CHECKING:
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts

READ_HERE = ("data", "public")  # stages that read the user's files: done first, so that bad input stops everything
POLL_S = 0.5
STATE_EVERY_S = 2.0


def run_trials(run: SweepRun, trials: list[Trial], place: ClusterSession) -> None:
    """Finish every one of these trials that is not finished yet. Raises InputError where the user's data are wrong."""
    run.add_trials(trials)
    pending = {trial.id: trial for trial in trials if run.is_open(trial)}
    _read_input(run, [*run.todo.values()])
    for trial in trials:
        if trial.id not in pending:
            run.trial_done(trial, None)
    left = iter(pending.values())
    if pending and not _is_spent(run):
        _watch(run, lambda: next(left, None), run.trial_done, place)
    for trial in left:  # for which the budget did not last
        run.trial_done(trial, "it was not begun" if run.is_open(trial) else None)


def run_search(run: SweepRun, agenda: Agenda, place: ClusterSession) -> None:
    """Propose and finish recipes until the search ends. Raises InputError where the user's data are wrong."""

    @contextlib.contextmanager
    def ending_with_errors() -> Generator[None]:
        """A search that fails proposes nothing more; what is at work goes on to its end."""
        try:
            yield
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
            run.failures["search"] = f"nothing more is proposed: {reason}"
            run.display.say(run.failures["search"])
            agenda.stop()

    def propose() -> Trial | Wait | None:
        proposed = None
        with ending_with_errors():
            proposed = agenda.next()
            _take_news(run, agenda)
        return proposed

    def ended(trial: Trial, failure: str | None) -> None:
        run.trial_done(trial, failure)
        with ending_with_errors():
            agenda.ended(trial, failure)

    _read_input(run, run.plan.with_trials(agenda.preview(), run.store).missing)
    agenda.begin()
    if _is_spent(run):
        agenda.stop()
    else:
        _keep_reserve(run, agenda)
    if not run.stopped and agenda.has_work():
        _watch(run, propose, ended, place, agenda)
    _take_news(run, agenda)
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
    propose: Callable[[], Trial | Wait | None],
    ended: Callable[[Trial, str | None], None],
    place: ClusterSession,
    agenda: Agenda | None = None,
) -> None:
    """Have what is proposed done; until then poll the scheduler, settle trials, refresh the display, mind the budget.

    propose, ended: of a `TrialSearcher`.
    """
    import ray

    from smoothsweep.orchestrator.running.tuning import TrialSearcher, TrialThreads

    scheduler, parallel = place.scheduler, int(place.facts.gpus) or place.facts.cpus
    threads = TrialThreads(TrialSearcher(propose, ended), scheduler, place.facts.trial_slots)
    saved_at = 0.0
    try:
        with explaining_rays_errors(), run.display:
            while threads.begin():
                over = threads.ended(POLL_S)
                interrupts.check()
                run.store.check_there()
                # After it: what has ended was told of before.
                _take_events(run, ray.get(scheduler.snapshot.remote(), timeout=120))
                for tunes_id, failure in over:
                    threads.settle(tunes_id, failure)
                if run.stopped is None and _is_spent(run):
                    run.display.say(f"budget: {run.stopped} are spent; ending what runs")
                    if agenda is not None:
                        agenda.stop()
                    threads.closed = True
                    _end(scheduler, f"budget: {run.stopped}", patience=120)
                elif agenda is not None and run.stopped is None:
                    _keep_reserve(run, agenda)
                run.forecast(parallel)
                run.display.update(run.state)
                if time.monotonic() - saved_at > STATE_EVERY_S:
                    run.save_state()
                    saved_at = time.monotonic()
    except StoreGone:
        _end(scheduler, "the store has disappeared", patience=60)
        raise
    finally:
        run.save_state()


def _take_events(run: SweepRun, snapshot: dict[str, Any]) -> None:
    """What the scheduler tells: stages that have ended, work that was done, what runs."""
    run.meter.update(snapshot)
    for event in snapshot["events"]:
        if event["what"] == "say":
            run.display.say(event["line"])
        elif event["what"] == "work":
            run.worked[event["fingerprint"]] += event["seconds"]
        elif event["what"] == "done":
            run.stage_done(event["fingerprint"], run.worked[event["fingerprint"]])
    run.state.running = snapshot["running"]


def _take_news(run: SweepRun, agenda: Agenda) -> None:
    """What the search tells: trials that it has opened or found in the store, and what it has to say."""
    while agenda.news:
        kind, what = agenda.news.popleft()
        if kind == "say":
            run.display.say(what)
            continue
        run.add_trials([what])
        if kind == "found":
            run.trial_done(what, None)


def _end(scheduler: Any, reason: str, *, patience: float) -> None:
    """Start nothing more and end what runs; on a busy node the scheduler goes on ending it after our patience."""
    import ray
    import ray.exceptions

    with contextlib.suppress(ray.exceptions.GetTimeoutError, ray.exceptions.RayError):
        ray.get(scheduler.stop.remote(reason), timeout=patience)


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
        from smoothsweep.orchestrator.cluster.connection import stop_ray

        self._lifeline.close()
        if kind is ClusterLost:
            return
        if kind is KeyboardInterrupt and "scheduler" in vars(self):
            _end(self.scheduler, "interrupted", patience=30)  # before we leave a cluster that others use
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
