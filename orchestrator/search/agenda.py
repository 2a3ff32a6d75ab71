"""What a search does next: the trials of what was proposed, and new proposals when they may be made.

Knows nothing of Ray. The runner of trials asks for the next one and says when one has ended; the order in which they
end changes nothing of what is proposed.

And what a sweep has spent, over its whole life and by all of its drivers, and when that is enough:

    <store>/sweeps/<name>/spent/<run>.jsonl         of one run, per kind of stage: device-seconds; its wall-seconds
    <store>/sweeps/<name>/spent/<run>.copy.jsonl    the same: nothing else knows it, should the first be damaged

Each run replaces its own two notes every two seconds with what runs at that moment counted in, so that a driver that
is killed loses no more than that. It reads those of the others, which may be at work at the same time, as often.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.plan import SearchForecast
from smoothsweep.orchestrator.planning.trial import Proposal, ProposalLog, Trial
from smoothsweep.orchestrator.search.setup import (
    OPEN,
    Aims,
    Outcome,
    Outcomes,
    Setup,
    Wait,
    all_tried,
    read_outcome,
    strategy,
)
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, read_note, write_lines
from smoothsweep.sweeps.search import Budget
from smoothsweep.sweeps.space import Values

Propose = Callable[[Sequence[Proposal], Outcomes], Proposal | Wait | None]
News = tuple[str, Any]  # ("say", line) | ("opened", trial) | ("found", trial): one that the store has already


class Agenda:
    """The trials of one search, or of a sweep with looks, one after the other. `news` tells what happens meanwhile."""

    def __init__(self, proposed: ProposalLog) -> None:
        self.file, self.store = proposed, proposed.store
        loaded = proposed.loaded
        self.setup = None if loaded.sweep.looks else search_setup(proposed)
        self._propose: Propose = (
            LookDesign(proposed).propose
            if self.setup is None
            else partial(strategy(loaded.search.strategy), self.setup)
        )
        self.news = deque[News]()
        self.proposals: list[Proposal] = []
        self.outcomes: dict[int, Outcome] = {}
        self.stopped = False
        self.closed: str | None = None  # why nothing more is proposed while what is open goes on
        self.through = False  # everything was proposed, and has ended
        self._open: dict[str, tuple[Trial, set[int]]] = {}  # not in the store, not ended, and the proposals that wait
        self._queue: deque[Trial] = deque()
        self._trials: dict[int, list[Trial]] = {}  # of proposals that are open
        self._failures: dict[str, str] = {}
        self._met: set[str] = set()  # ids of the trials of all proposals

    def preview(self) -> list[Trial]:
        """The trials of the first proposal, made or to be made. Writes nothing."""
        first = next(iter(self.file.proposals()), None) or self._propose([], {})
        return self.file.trials_of(first) if isinstance(first, Proposal) else []

    def begin(self) -> None:
        """Take up what was proposed earlier."""
        earlier = self.file.proposals()
        if notice := self.file.open_for_appending():
            self.news.append(("say", notice))
        for proposal in earlier:
            self._enter(proposal)

    def next(self) -> Trial | Wait | None:
        """The next trial to run; Wait where something must end before, None when nothing is left."""
        while not self.stopped:
            if self._queue:
                trial = self._queue.popleft()
                self.news.append(("opened", trial))
                return trial
            if self.closed:
                return None
            proposal = self._propose(self.proposals, self.outcomes)
            if proposal is None:
                self.through = not self._trials
                return None if self.through else Wait()
            if isinstance(proposal, Wait):
                return proposal
            self.file.write([*self.proposals, proposal])  # before any of it runs: what was begun was proposed
            self._enter(proposal)
        return None

    def ended(self, trial: Trial, failure: str | None) -> None:
        """A trial that `next` gave has ended."""
        if failure is not None:
            self._failures[trial.id] = failure
        _, waiting = self._open.pop(trial.id, (trial, set[int]()))
        for number in waiting:
            if number in self._trials:  # else settled: the store had all of this trial before it was told to have ended
                self._note_outcome(number)

    def has_work(self) -> bool:
        """Whether there is anything to run or to propose. Nothing is proposed by asking."""
        if self._queue:
            return True
        if self.closed:
            return False
        self.through = self._propose(self.proposals, self.outcomes) is None
        return not self.through

    def waiting(self) -> list[Trial]:
        """Trials of what was proposed that have not ended."""
        return [trial for trial, _ in self._open.values()]

    @property
    def ended_by(self) -> str | None:
        """Why there is nothing more to propose: "recipes", "exhausted" or "looks"; None as long as there is."""
        if not self.through:
            return None
        if self.setup is None:
            return "looks"
        return "recipes" if all_tried(self.setup, self.proposals) else "exhausted"

    def close(self, reason: str) -> None:
        """Propose nothing more; what is open goes on to its end."""
        self.closed = reason

    def stop(self) -> None:
        """Propose nothing more; what is open stays open."""
        self.stopped = True

    def _enter(self, proposal: Proposal) -> None:
        """Queue the proposal's trials, except those that the store has."""
        self.proposals.append(proposal)
        trials = self._trials[proposal.number] = self.file.trials_of(proposal)
        for trial in trials:
            if all(self.store.has(stage) for stage in trial.stages):
                if trial.id not in self._met:  # else it was opened or found before, under fewer seeds of its recipe
                    self.news.append(("found", trial))
            elif trial.id in self._open:
                self._open[trial.id][1].add(proposal.number)
            else:
                self._open[trial.id] = trial, {proposal.number}
                self._queue.append(trial)
            self._met.add(trial.id)
        self._note_outcome(proposal.number)

    def _note_outcome(self, number: int) -> None:
        aims = self.setup.aims if self.setup else Aims(objectives={})
        outcome = read_outcome(self._trials[number], self.store, aims, self._failures)
        if outcome.status != OPEN:
            self.outcomes[number] = outcome
            del self._trials[number]


def search_setup(proposed: ProposalLog) -> Setup:
    """The search of a sweep file as strategies need it."""
    loaded, search = proposed.loaded, proposed.loaded.search
    return Setup(
        space=search.dimensions,
        aims=Aims(objectives=search.objectives, constraints=search.constraints),
        identity=proposed.identity,
        seed=search.start,
        recipes=search.recipes,
        lag=search.lag,
        baseline=loaded.first_recipe[0],
        stated=loaded.first_recipe[1],
        settings=search.built_settings,
        sampler=search.sampler or "gp",
        seeds=len(loaded.sweep.every_seed),
        first_seeds=search.seeds_at_first,
        rungs=search.rungs,
        audit=search.audit or 0,
    )


class LookDesign:
    """The design of a sweep with looks: every recipe at the first look, then those that are still open.

    Proposals depend only on the finished trials in the store, so that a killed sweep continues to the same result.
    """

    def __init__(self, proposed: ProposalLog) -> None:
        self.proposed, self.loaded, self.store = proposed, proposed.loaded, proposed.store
        self._open_after: dict[int, list[dict[str, Any]]] = {}

    def propose(self, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
        for look in range(len(self.loaded.looks.looks)):
            of_this_look = [proposal for proposal in proposals if proposal.look == look]
            for recipe in self._wanted(look, proposals):
                if not any(proposal.values == recipe for proposal in of_this_look):
                    return Proposal(number=len(proposals), values=recipe, origin="look", look=look)
            if not all(proposal.number in outcomes for proposal in of_this_look):
                return Wait()
        return None

    def _wanted(self, look: int, proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
        """The recipes that get seeds for a look, once all trials of the one before have ended."""
        if look == 0:
            return [recipe for recipe, _ in self.proposed.recipes]
        if look not in self._open_after:
            self._open_after[look] = self._still_open(look, proposals)
        return self._open_after[look]

    def _still_open(self, looks_begun: int, proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
        """The baseline and the recipes still open after `looks_begun` looks; empty where none is open."""
        # statistics, which a plan does without
        from smoothsweep.orchestrator.result.data import ReportData
        from smoothsweep.orchestrator.result.rows import baseline_axes, per_class_rows, results_table, sweep_axes
        from smoothsweep.orchestrator.result.summary import summarise

        trials_of = self.proposed.trials_of
        trials = [t for one in proposals if present(one.look, "look") < looks_begun for t in trials_of(one)]
        per_class = per_class_rows(trials, self.store)
        data = ReportData(
            title=self.loaded.sweep.name,
            results=results_table(trials, self.store, {}),
            axes=sweep_axes(self.loaded, trials),
            protocol=self.loaded.sweep.protocol,
            per_class=per_class if len(per_class) else None,
            baseline=baseline_axes(self.loaded),
            looks=self.loaded.looks,
        )
        summary = summarise(data)
        stops = {} if summary.primary is None else summary.stops(summary.primary)
        open_ = {recipe for recipe, stop in stops.items() if stop.answer == "open" and stop.look == looks_begun}
        ids = {trial for mine in summary.frame.loc[summary.frame["recipe"].isin(open_), "trials"] for trial in mine}
        (baseline, _), *others = self.proposed.recipes
        firsts = ((recipe, trials_of(Proposal(number=0, values=recipe, look=0))) for recipe, _ in others)
        wanted = [recipe for recipe, mine in firsts if any(trial.id in ids for trial in mine)]
        return [baseline, *wanted] if wanted else []


FOLDER, NOTE, COPY = "spent", ".jsonl", ".copy.jsonl"
LOOK_EVERY_S = 5.0


class SpentLine(BaseModel, extra="forbid"):
    """What one run spent: device-seconds of one kind of stage, or its wall-seconds and when they began, in seconds
    since 1970.
    """

    stage: str | None = None
    device_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    wall_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    began: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Meter:
    """Counts device time and wall time of one sweep, those of earlier runs and of other drivers included."""

    def __init__(self, store: Store, name: str, budget: Budget | None) -> None:
        self.store, self.name, self.budget = store, name, budget
        self._own = f"{FOLDER}/{uuid.uuid4().hex[:12]}"
        self._others, self._looked = _noted(store, name, besides=self._own), time.monotonic()
        self._done, self._running = Counter[str](), Counter[str]()  # kind of stage -> device-seconds of its tasks
        self._began, self._started = time.time(), time.monotonic()

    @property
    def device_s(self) -> float:
        """Device-seconds over the life of the sweep."""
        return _device_s([*self._others, *self._lines()])

    @property
    def wall_s(self) -> float:
        """Seconds during which the sweep was run, by however many drivers at once."""
        return _wall_s([*self._others, *self._lines()])

    def update(self, snapshot: dict[str, Any]) -> None:
        """Count what the scheduler tells of tasks that have ended and of those that run."""
        for event in snapshot["events"]:
            if event["what"] == "work":
                self._done[event["stage"]] += event["device_seconds"]
        self._running.clear()
        for entry in snapshot["running"]:
            self._running[entry["stage"]] += entry.get("device_seconds", 0.0)
        if time.monotonic() - self._looked >= LOOK_EVERY_S:
            self._looked = time.monotonic()
            with contextlib.suppress(OSError):  # the store is away: what was known last stands
                self._others = _noted(self.store, self.name, besides=self._own)

    def exceeded(self, reserved: float = 0.0) -> str | None:
        """What is spent of what limit, in words, once that is all but the share `reserved` (0 to 1); None before."""
        if self.budget is None:
            return None
        hours, minutes = self.budget.device_hours, self.budget.minutes
        if hours is not None and self.device_s >= 3600 * hours * (1 - reserved):
            return f"{self.device_s / 3600:.3g} of {hours:g} device-hours"
        if minutes is not None and self.wall_s >= 60 * minutes * (1 - reserved):
            return f"{self.wall_s / 60:.3g} of {minutes:g} minutes"
        return None

    def save(self) -> None:
        """Leave what this run spent in the sweep's folder."""
        with contextlib.suppress(OSError):  # a full disk fails the stages that need it, not the watching
            for ending in (NOTE, COPY):
                lines = [line.model_dump(exclude_none=True) for line in self._lines()]
                write_lines(self.store, self.name, self._own + ending, lines)

    def _lines(self) -> list[SpentLine]:
        kinds = sorted({*self._done, *self._running})
        return [
            *(SpentLine(stage=one, device_seconds=round(self._done[one] + self._running[one], 2)) for one in kinds),
            SpentLine(wall_seconds=round(time.monotonic() - self._started, 2), began=round(self._began, 2)),
        ]


def _noted(store: Store, name: str, besides: str = "") -> list[SpentLine]:
    """What the notes of all runs but one say."""
    names = store.note_names(name, FOLDER)
    runs = {f"{FOLDER}/{name.removesuffix(COPY).removesuffix(NOTE)}" for name in names if name.endswith(NOTE)}
    lines: list[SpentLine] = []
    for run in sorted(runs - {besides}):
        found = read_lines(store, name, run + NOTE, [SpentLine], f"{run}{COPY} is read in its place")
        found = found or read_lines(store, name, run + COPY, [SpentLine], "what was spent so far is forgotten")
        lines += found
    return lines


def spent(store: Store, name: str) -> tuple[float, float]:
    """(device-seconds, wall-seconds) that the sweep has taken so far."""
    lines = _noted(store, name)
    return _device_s(lines), _wall_s(lines)


def hours_left(store: Store, name: str, budget: Budget | None) -> float | None:
    """Device-hours that are left of a sweep's budget; None where it has none."""
    if budget is None or budget.device_hours is None:
        return None
    return max(0.0, budget.device_hours - spent(store, name)[0] / 3600)


def _device_s(lines: Iterable[SpentLine]) -> float:
    return sum(line.device_seconds or 0.0 for line in lines)


def _wall_s(lines: Iterable[SpentLine]) -> float:
    """Wall-seconds, counted once for runs at the same time."""
    total, until = 0.0, -math.inf
    for began, seconds in sorted((line.began or 0.0, line.wall_seconds or 0.0) for line in lines):
        total += max(0.0, began + seconds - max(began, until))
        until = max(until, began + seconds)
    return total


ENDED = "search/ended.json"


class _EndNote(BaseModel, extra="forbid"):
    stopped_by: str | None


def write_end(proposed: ProposalLog, stopped_by: str | None) -> None:
    """Note why the search has ended, or that it has not."""
    proposed.store.write_note(proposed.name, ENDED, json.dumps({"stopped_by": stopped_by}).encode())


def read_end(proposed: ProposalLog) -> str | None:
    """Why the last run of the search ended; None while it is unfinished."""
    unread = "the search counts as unfinished until it is run again"
    note = read_note(proposed.store, proposed.name, ENDED, _EndNote, unread)
    return note.stopped_by if note is not None and proposed.proposals() else None


SAMPLES = 4  # recipes drawn to tell what one costs
FAR = 10**9  # numbers of these draws: no proposal's


def forecast_of(proposed: ProposalLog) -> SearchForecast | None:
    """What the search of the sweep may still propose, or its looks; None for a sweep without, or that is through."""
    sweep, store = proposed.loaded.sweep, proposed.store
    if sweep.looks is not None:
        return _forecast_of_looks(proposed)
    if sweep.search is None:
        return None
    proposals, setup = proposed.proposals(), search_setup(proposed)
    counts, recipes = _counts(setup, proposals), _samples(setup)
    # How many are to be audited again, of which none has been chosen yet.
    again = sweep.reaudit.recipes if sweep.reaudit and proposed.reaudit() is None else 0
    if not recipes or not (again or any(count for _, count in counts)):
        return None
    met = [
        [proposed.trials_of(Proposal(number=0, values=values, rung=rung)) for rung, _ in counts]
        + [proposed.trials_under(values, sweep.reaudit.seeds, "reaudit") if sweep.reaudit else []]
        for values in recipes
    ]
    whole = [[[s for trial in trials for s in trial.stages] for trials in of_recipe] for of_recipe in met]
    first = [with_ancestors(of_recipe[0]) for of_recipe in whole]
    shared = set.intersection(*({stage.fingerprint for stage in stages} for stages in first))
    added = []  # by recipe and step: the stages that no earlier step has
    for of_recipe in whole:
        known, steps = set(shared), []
        for stages in of_recipe:
            steps.append(tuple(stage for stage in with_ancestors(stages) if stage.fingerprint not in known))
            known |= {stage.fingerprint for stage in steps[-1]}
        added.append(steps)
    common = [stage for stage in first[0] if stage.fingerprint in shared and not store.has(stage)]
    return SearchForecast(
        recipes=counts[0][1] + (bool(setup.rungs and setup.baseline) and not proposals),
        again=again,
        settings=sweep,
        steps=tuple(zip((*(count for _, count in counts), again), zip(*added, strict=True), strict=True)),
        shared=() if proposals else tuple(common),
        budget_hours=hours_left(store, sweep.name, sweep.budget),
    )


def _forecast_of_looks(proposed: ProposalLog) -> SearchForecast | None:
    """All that looks may still train: every recipe that the last one left open, if it leaves them all open."""
    sweep, looks, proposals = proposed.loaded.sweep, proposed.loaded.looks.looks, proposed.proposals()
    looks_begun = max((proposal.look for proposal in proposals if proposal.look is not None), default=0)
    last = [proposal.values for proposal in proposals if proposal.look == looks_begun]
    later = range(looks_begun + 1, len(looks))
    if not later or read_end(proposed) is not None:
        return None
    # Until all recipes of a look are proposed, none of its answers is known.
    recipes = last if looks_begun else [recipe for recipe, _ in proposed.recipes]

    def trials_at(look: int) -> list[Trial]:
        return [t for one in recipes for t in proposed.trials_of(Proposal(number=0, values=one, look=look))]

    trials, first = [trial for look in later for trial in trials_at(look)], trials_at(0)
    known = {stage.fingerprint for stage in with_ancestors([s for t in first for s in t.stages])}
    stages = with_ancestors([stage for trial in trials for stage in trial.stages])
    added = tuple(stage for stage in stages if stage.fingerprint not in known and not proposed.store.has(stage))
    return SearchForecast(
        recipes=0,
        settings=sweep,
        steps=((1, (added,)),),
        budget_hours=hours_left(proposed.store, sweep.name, sweep.budget),
        looks=tuple(looks[look] for look in later),
        trials=len(trials),
    )


def _samples(setup: Setup) -> list[Values]:
    """Valid recipes of the space, one for each of so many numbers where twenty draws find it."""
    samples: list[Values] = []
    for number in range(SAMPLES):
        for attempt in range(20):
            values = setup.random(FAR + number, attempt)
            with contextlib.suppress(InputError):
                setup.identity(values)
                samples.append(values)
                break
    return samples


def _counts(setup: Setup, proposals: list[Proposal]) -> list[tuple[int | None, int]]:
    """(rung, how many more recipes meet it at most), from the first rung to the full attack (None)."""
    tried = sum(proposal.of is None for proposal in proposals)
    if not setup.rungs:
        total = setup.recipes if setup.recipes is not None else (setup.space.count or 0) + bool(setup.baseline)
        return [(None, max(0, total - tried))]
    remaining = (setup.recipes or 0) - bool(setup.baseline)
    counts: list[tuple[int | None, int]] = []
    for number, rung in enumerate(setup.rungs):
        there = sum(proposal.rung == number for proposal in proposals)
        counts.append((number, max(0, remaining - there)))
        remaining = math.ceil(rung.keep * remaining - 1e-9)
    there = sum(proposal.rung is None and proposal.of is not None for proposal in proposals)
    first = bool(setup.baseline) and not proposals  # which meets the full attack at once
    return [*counts, (None, max(0, remaining + setup.audit - there) + first)]
