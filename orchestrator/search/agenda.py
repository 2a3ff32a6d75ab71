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
import time
import uuid
from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

from pydantic import BaseModel, Field

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.planning.trial import Proposal, ProposalLog, Trial, TrialMaker
from smoothsweep.orchestrator.search.setup import OPEN, Aims, Outcome, Setup, Wait, read_outcome, status_of, strategy
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, write_lines
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.search import Budget

News = tuple[str, Any]  # ("say", line) | ("opened", trial) | ("found", trial): one that the store has already


class Agenda:
    """The trials of one search, one after the other. `news` tells another thread what happens."""

    def __init__(self, proposed: ProposalLog) -> None:
        self.file, self.store, self.make = proposed, proposed.store, proposed.make
        self._take_aim(proposed.loaded)
        self.news: SimpleQueue[News] = SimpleQueue()
        self.proposals: list[Proposal] = []
        self.outcomes: dict[int, Outcome] = {}
        self.stopped = False
        self.closed: str | None = None  # why nothing more is proposed while what is open goes on
        self.through = False  # everything was proposed, and has ended
        self._open: dict[str, Trial] = {}  # not in the store, not ended
        self._queue: deque[Trial] = deque()
        self._trials: dict[int, list[Trial]] = {}  # of proposals that are open
        self._waiting: dict[str, set[int]] = {}  # trial id -> proposals that wait for it
        self._failures: dict[str, str] = {}
        self._met: set[str] = set()  # ids of the trials of all proposals

    def _take_aim(self, loaded: LoadedSweep) -> None:
        self.setup = search_setup(self.make)
        self.propose = strategy(loaded.search.strategy)

    def _proposal(self) -> Proposal | Wait | None:
        """What to propose next, from what was proposed and how it came out."""
        return self.propose(self.setup, self.proposals, self.outcomes)

    def _outcome(self, trials: list[Trial]) -> Outcome:
        return read_outcome(trials, self.store, self.setup.aims, self._failures)

    def preview(self) -> list[Trial]:
        """The trials of the first proposal, made or to be made. Writes nothing."""
        proposals = self.file.proposals()
        first = proposals[0] if proposals else self._proposal()
        return self.make(first) if isinstance(first, Proposal) else []

    def begin(self) -> None:
        """Take up what was proposed earlier."""
        earlier = self.file.proposals()
        if notice := self.file.open_for_appending():
            self.news.put(("say", notice))
        for proposal in earlier:
            self._enter(proposal)

    def next(self) -> Trial | Wait | None:
        """The next trial to run; Wait where something must end before, None when nothing is left."""
        while not self.stopped:
            if self._queue:
                trial = self._queue.popleft()
                self.news.put(("opened", trial))
                return trial
            if self.closed:
                return None
            proposal = self._proposal()
            if proposal is None:
                self.through = not self._trials
                return None if self.through else Wait()
            if isinstance(proposal, Wait):
                return proposal
            self.file.append(proposal)  # before any of it runs: what was begun was proposed
            self._enter(proposal)
        return None

    def ended(self, trial: Trial, failure: str | None) -> None:
        """A trial that `next` gave has ended."""
        if failure is not None:
            self._failures[trial.id] = failure
        self._open.pop(trial.id, None)
        for number in self._waiting.pop(trial.id, set()):
            if number in self._trials:  # else settled: the store had all of this trial before it was told to have ended
                self._note_outcome(number)

    def has_work(self) -> bool:
        """Whether there is anything to run or to propose. Nothing is proposed by asking."""
        if self._queue:
            return True
        if self.closed:
            return False
        self.through = self._proposal() is None
        return not self.through

    def waiting(self) -> list[Trial]:
        """Trials of what was proposed that have not ended."""
        return list(self._open.values())

    @property
    def ended_by(self) -> str | None:
        """Why there is nothing more to propose: "recipes", "exhausted" or "looks"; None as long as there is."""
        if not self.through:
            return None
        recipes = sum(proposal.of is None for proposal in self.proposals)
        return "recipes" if self.setup.recipes is not None and recipes >= self.setup.recipes else "exhausted"

    def close(self, reason: str) -> None:
        """Propose nothing more; what is open goes on to its end."""
        self.closed = reason

    def stop(self) -> None:
        """Propose nothing more; what is open stays open."""
        self.stopped = True

    def _enter(self, proposal: Proposal) -> None:
        """Queue the proposal's trials, except those that the store has."""
        self.proposals.append(proposal)
        trials = self._trials[proposal.number] = self.make(proposal)
        for trial in trials:
            if all(self.store.has(stage) for stage in trial.stages):
                if trial.id not in self._met:  # else it was opened or found before, under fewer seeds of its recipe
                    self.news.put(("found", trial))
            elif trial.id in self._waiting:
                self._waiting[trial.id].add(proposal.number)
            else:
                self._waiting[trial.id] = {proposal.number}
                self._open[trial.id] = trial
                self._queue.append(trial)
            self._met.add(trial.id)
        self._note_outcome(proposal.number)

    def _note_outcome(self, number: int) -> None:
        outcome = self._outcome(self._trials[number])
        if outcome.status != OPEN:
            self.outcomes[number] = outcome
            del self._trials[number]


def search_setup(make: TrialMaker) -> Setup:
    """The search of a sweep file as strategies need it."""
    loaded, search = make.loaded, make.loaded.search
    return Setup(
        space=search.dimensions,
        aims=search_aims(loaded),
        identity=make.identity,
        seed=search.start,
        recipes=search.recipes,
        lag=search.lag,
        baseline=loaded.recipes.baseline,
        stated=loaded.recipes.stated,
        settings=search.built_settings,
        sampler=search.sampler or "gp",
        seeds=len(loaded.sweep.every_seed),
        first_seeds=search.seeds_at_first,
        rungs=search.rungs,
        audit=search.audit or 0,
    )


def search_aims(loaded: LoadedSweep) -> Aims:
    """Objectives and constraints of a sweep's search."""
    return Aims(objectives=loaded.search.objectives, constraints=loaded.search.constraints)


RESAMPLES = 10  # few, since no decision depends on these bootstrap intervals


class LookAgenda(Agenda):
    """The trials of a sweep with looks: every recipe at the first look, then those that are still open.

    Proposals depend only on the finished trials in the store, so that a killed sweep continues to the same result.
    """

    def preview(self) -> list[Trial]:
        """The baseline's trials of the first look. Writes nothing."""
        recipe, _ = self.make.recipes[0]
        return self.make(Proposal(number=0, values=recipe, look=0))

    @property
    def ended_by(self) -> str | None:
        """Why there is nothing more to propose: "looks"; None as long as there is."""
        return "looks" if self.through else None

    def _take_aim(self, loaded: LoadedSweep) -> None:
        self.loaded, self._open_after = loaded, {}

    def _outcome(self, trials: list[Trial]) -> Outcome:
        return Outcome(status=status_of(trials, self.store, self._failures))

    def _proposal(self) -> Proposal | Wait | None:
        for look in range(len(self.make.looks.looks)):
            of_this_look = [proposal for proposal in self.proposals if proposal.look == look]
            for recipe in self._wanted(look):
                if not any(proposal.values == recipe for proposal in of_this_look):
                    return Proposal(number=len(self.proposals), values=recipe, origin="look", look=look)
            if not all(proposal.number in self.outcomes for proposal in of_this_look):
                return Wait()
        return None

    def _wanted(self, look: int) -> list[dict[str, Any]]:
        """The recipes that get seeds for a look, once all trials of the one before have ended."""
        if look == 0:
            return [recipe for recipe, _ in self.make.recipes]
        if look not in self._open_after:
            self._open_after[look] = self._still_open(look)
        return self._open_after[look]

    def _still_open(self, looks_begun: int) -> list[dict[str, Any]]:
        """The baseline and the recipes still open after `looks_begun` looks; empty where none is open."""
        # statistics, which a plan does without
        from smoothsweep.orchestrator.result.axes import baseline_axes, sweep_axes
        from smoothsweep.orchestrator.result.data import ReportData
        from smoothsweep.orchestrator.result.estimates import Settings
        from smoothsweep.orchestrator.result.rows import per_class_rows, results_table
        from smoothsweep.orchestrator.result.summary import cells_of

        trials = [
            trial
            for proposal in self.proposals
            if present(proposal.look, "look") < looks_begun
            for trial in self.make(proposal)
        ]
        table = results_table(trials, self.store, {})
        per_class = per_class_rows(trials, self.store)
        cells, primary = cells_of(
            ReportData(
                title=self.loaded.sweep.name,
                results=table,
                axes=sweep_axes(self.loaded, trials),
                protocol=self.loaded.sweep.protocol,
                per_class=per_class if len(per_class) else None,
                baseline=baseline_axes(self.loaded),
                looks=self.make.looks,
            ),
            Settings(resamples=RESAMPLES),
        )
        if primary is None:
            return []
        stops = cells.stops(primary)
        open_ = {recipe for recipe, stop in stops.items() if stop.answer == "open" and stop.look == looks_begun}
        rows = zip(cells.frame["recipe"], cells.frame["trials"], strict=True)
        ids = {trial for recipe, mine in rows if recipe in open_ for trial in mine}
        first, *others = self.make.recipes
        wanted = [
            recipe
            for recipe, _ in others
            if any(trial.id in ids for trial in self.make(Proposal(number=0, values=recipe, look=0)))
        ]
        return [first[0], *wanted] if wanted else []


FOLDER, NOTE, COPY = "spent", ".jsonl", ".copy.jsonl"
LOOK_EVERY_S = 5.0
SETTLED_S = 60.0  # a run that has written nothing new for so long has ended, or hangs

Lines = list[dict[str, Any]]


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
        self._others = _OtherRuns(store, name, besides=self._own)
        self._others.look()
        self._done: dict[str, float] = {}  # kind of stage -> device-seconds of tasks that have ended
        self._running: dict[str, float] = {}
        self._began, self._started = time.time(), time.monotonic()

    @property
    def device_s(self) -> float:
        """Device-seconds over the life of the sweep."""
        return _device_s([*self._others.lines, *self._lines()])

    @property
    def wall_s(self) -> float:
        """Seconds during which the sweep was run, by however many drivers at once."""
        return _wall_s([*self._others.lines, *self._lines()])

    def update(self, snapshot: dict[str, Any]) -> None:
        """Count what the scheduler tells of tasks that have ended and of those that run."""
        for event in snapshot["events"]:
            if event["what"] == "work":
                self._done[event["stage"]] = self._done.get(event["stage"], 0.0) + event["device_seconds"]
        self._running = {}
        for entry in snapshot["running"]:
            seconds = entry.get("device_seconds", 0.0)
            self._running[entry["stage"]] = self._running.get(entry["stage"], 0.0) + seconds
        self._others.look(LOOK_EVERY_S)

    def exceeded(self, reserved: float = 0.0) -> str | None:
        """What is spent of what limit, in words, once that is all but the share `kept` (0 to 1); None before."""
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
                write_lines(self.store, self.name, self._own + ending, self._lines())

    def _lines(self) -> Lines:
        seconds = {
            kind: self._done.get(kind, 0.0) + self._running.get(kind, 0.0)
            for kind in sorted({*self._done, *self._running})
        }
        wall = round(time.monotonic() - self._started, 2)
        return [
            *({"stage": kind, "device_seconds": round(s, 2)} for kind, s in seconds.items()),
            {"wall_seconds": wall, "began": round(self._began, 2)},
        ]


class _OtherRuns:
    """What the notes of all runs but one say."""

    def __init__(self, store: Store, name: str, besides: str = "") -> None:
        self._store, self._name, self._besides = store, name, besides
        self._known: dict[str, tuple[Lines, float]] = {}  # note -> what it says, and when it last said something new
        self._looked = -1e9

    @property
    def lines(self) -> Lines:
        return [line for lines, _ in self._known.values() for line in lines]

    def look(self, every_s: float = 0.0) -> None:
        """Read what may have changed, unless that was done within `every_s`."""
        now = time.monotonic()
        if now - self._looked < every_s:
            return
        self._looked = now
        with contextlib.suppress(OSError):  # the store is away: what was known last stands
            for note in self._notes():
                before, since = self._known.get(note, ([], now))
                if note in self._known and now - since > SETTLED_S and every_s:
                    continue
                lines = _lines(self._store, self._name, note)
                self._known[note] = (lines, since if note in self._known and lines == before else now)

    def _notes(self) -> list[str]:
        """Every run's note, without its ending."""
        names = self._store.note_names(self._name, FOLDER)
        runs = {f"{FOLDER}/{name.removesuffix(COPY).removesuffix(NOTE)}" for name in names if name.endswith(NOTE)}
        return sorted(runs - {self._besides})


def spent(store: Store, name: str) -> tuple[float, float]:
    """(device-seconds, wall-seconds) that the sweep has taken so far."""
    other_runs = _OtherRuns(store, name)
    other_runs.look()
    return _device_s(other_runs.lines), _wall_s(other_runs.lines)


def hours_left(store: Store, name: str, budget: Budget | None) -> float | None:
    """Device-hours that are left of a sweep's budget; None where it has none."""
    if budget is None or budget.device_hours is None:
        return None
    return max(0.0, budget.device_hours - spent(store, name)[0] / 3600)


def _device_s(lines: Iterable[dict[str, Any]]) -> float:
    return sum(line.get("device_seconds", 0.0) for line in lines)


def _wall_s(lines: Iterable[dict[str, Any]]) -> float:
    """Wall-seconds, counted once for runs at the same time, and in full for runs that do not say when they began."""
    total, until = 0.0, float("-inf")
    for began, seconds in sorted((line.get("began", -1.0), line.get("wall_seconds", 0.0)) for line in lines):
        if began < 0:
            total += seconds
            continue
        total += max(0.0, began + seconds - max(began, until))
        until = max(until, began + seconds)
    return total


def _lines(store: Store, name: str, note: str) -> Lines:
    first, copy = note + NOTE, note + COPY
    lines = read_lines(store, name, first, [SpentLine], f"{copy} is read in its place")
    lines = lines or read_lines(store, name, copy, [SpentLine], "what was spent so far is forgotten")
    return [line.model_dump(exclude_none=True) for line in lines]
