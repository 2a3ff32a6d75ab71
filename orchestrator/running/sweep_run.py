"""One call of `smoothsweep run`: what it is asked for, what has happened so far, and what to say at its end.

A person sees a live panel on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from smoothsweep.core.attacks.surrogates import SURROGATES
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.text import counted, duration, printable, shortened
from smoothsweep.core.uris import hidden
from smoothsweep.orchestrator.planning.costs import reference_s
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.state import SweepState, other_driver, write_state
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.estimates import judge_checks, untold
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import answers_to_photographs, least_of_data, surrogate_lines
from smoothsweep.orchestrator.running.recorder import Recorder
from smoothsweep.orchestrator.search.agenda import Meter
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.registry import stage_title

TELLING = {"embeddings", "target", "imported", SURROGATES, *map(stage_of, JUDGES)}
"""Stages whose end may show that a judge can tell no leak."""


@dataclass(kw_only=True)
class SweepRun:
    """One call of `smoothsweep run`: what is asked for, where it lies, what has happened.

    Attributes:
        failures: Trial id -> cause.
        left_open: Trials that a stop left unfinished.
        worked: Fingerprint -> seconds of tasks that have ended.
        todo: Fingerprint -> stage, of those that are to be made, inputs first.
        stopped: Why the sweep was stopped before its end, None if it was not.
        reserved: The share of the budget that a search leaves to its re-audit.
        code: Digest of the code that it began with, None for any.
    """

    name: str
    plan: Plan
    store: Store
    recorder: Recorder
    display: Display
    meter: Meter
    reserved: float = 0.0
    code: str | None = None
    failures: dict[str, str] = field(default_factory=dict)
    left_open: dict[str, Trial] = field(default_factory=dict)
    worked: Counter[str] = field(default_factory=Counter)
    stopped: str | None = None
    state: SweepState = field(init=False)
    todo: dict[str, Stage] = field(init=False)

    def __post_init__(self) -> None:
        self.plan.history.read({stage.name for stage in self.plan.missing})  # before this run adds to it
        self.state, self._made = SweepState(name=self.name), set[str]()
        self._count()
        self._took = self._should_have = 0.0  # seconds of finished stages, here and by the shipped rates
        self._said: set[str] = set()
        self._looked_at: set[tuple[str, str]] = set()

    def _count(self) -> None:
        self.todo = {stage.fingerprint: stage for stage in self.plan.missing if stage.fingerprint not in self._made}
        self.state.total_trials, self.state.total_stages = len(self.plan.trials), len(self.plan.stages)
        self.state.done_stages = self.state.total_stages - len(self.todo)

    def stage_done(self, fingerprint: str, seconds: float) -> None:
        stage = self.todo.pop(fingerprint, None)
        if stage is not None:
            self._made.add(fingerprint)
            self.state.done_stages += 1
            self.plan.history.add_stage(stage, seconds)
            if rated := reference_s(stage):
                self._took, self._should_have = self._took + seconds, self._should_have + rated
            self.say_of_judges(stage)

    def say_of_judges(self, stage: Stage, *, fit: bool = True) -> None:
        """Say of judges that can tell no leak, and of surrogates that have learnt nothing, as soon as it is known.

        fit: whether to fit an embedder's head on what `stage` left, which its own stage does after the first attack.
        """
        real = stage.inputs.get("real", stage).fingerprint  # the same for all trials by one judge
        if stage.name not in TELLING or (stage.name, real) in self._looked_at:
            return
        trial = next((trial for trial in self.plan.trials if stage in with_ancestors(trial.stages)), None)
        if trial is None:
            return
        self._looked_at.add((stage.name, real))
        people, images = (least_of_data([trial], self.store, number) for number in ("num_classes", "num_test"))
        known = answers_to_photographs(trial, self.store, stage if fit else None)
        checks = judge_checks(known, people=people, images=images)
        for line in (*untold(checks), *surrogate_lines([trial], self.store, people)):
            if line not in self._said:
                self._said.add(line)
                self.display.say(ascii_text(line))

    def add_trials(self, trials: list[Trial]) -> None:
        """Count those trials that were not known when the run began."""
        known = {trial.id for trial in self.plan.trials}
        self.plan = self.plan.with_trials([trial for trial in trials if trial.id not in known], self.store)
        self._count()

    def is_open(self, trial: Trial) -> bool:
        """Whether a trial, which was added, has a stage that is not done."""
        return any(stage.fingerprint in self.todo for stage in trial.stages)

    def trial_done(self, trial: Trial, failure: str | None) -> None:
        """Note the outcome and hand the trial to the recorder. What a stop left unfinished is open, not failed.

        A trial is done when the artifacts of all its stages are there, whatever a worker reports; the store is asked
        about those alone that are not known to be done.
        """
        if failure is None:
            unknown = [stage for stage in trial.stages if stage.fingerprint in self.todo]
            missing = ", ".join(stage.label for stage in unknown if not self.store.has(stage))
            failure = f"not in the store, though it was made: {missing}" if missing else None
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
        """Note how long what is left takes: by stages like it, else by the shipped rates at the pace seen so far.

        It shrinks at every moment in which something runs, also where that takes longer than stages like it.
        """
        pace = self._took / self._should_have if self._should_have else 1.0
        at_work = {entry["fingerprint"]: entry["seconds"] for entry in self.state.running}
        left, unknown = [0.0], 0
        for fingerprint, stage in self.todo.items():
            if alike := self.plan.history.expected(stage):
                expected = alike[0]
            else:
                if (rated := reference_s(stage)) is None:
                    unknown += 1
                    continue
                expected = rated * pace
            spent = self.worked[fingerprint] + at_work.get(fingerprint, 0.0)
            left.append(expected - spent if spent <= expected / 2 else expected**2 / (4 * spent))
        self.state.seconds_left, self.state.unknown_stages = max(sum(left) / max(1, parallel), max(left)), unknown

    def save_state(self, finished: bool = False) -> None:
        """Leave the state for `smoothsweep status`. A full disk fails the stages that need it, not the watching."""
        self.meter.save()
        left = dict.fromkeys(self.left_open, f"budget: {self.stopped}")
        with contextlib.suppress(OSError):
            write_state(self.store, self.name, self.state, self.failures, finished=finished, stopped=left)


def begin_run(run: SweepRun) -> SweepRun:
    """Say what is asked for, before anything is started."""
    store, display = run.store, run.display
    store.sweep_away_drafts()
    display.say(
        f"{run.name}: {counted(len(run.plan.trials), 'trial')}, {counted(len(run.plan.stages), 'stage')}, "
        f"{len(run.plan.stages) - len(run.plan.missing)} already in {store.location}"
    )
    for stage in run.plan.stages:
        if stage.name == "embeddings" and store.has(stage):
            run.say_of_judges(stage, fit=False)
    if other := other_driver(store, run.name):
        display.say(other)
    return run


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


PLAIN_EVERY_S = 15.0


class Display:
    """Shows a SweepState: `update` often, `say` for a line that stays. Use as a context manager."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._live = live if self.console.is_terminal else None
        self._printed_at = 0.0
        self._printed = ""

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        self.console.print(printable(hidden(line)), markup=False)

    def update(self, state: SweepState) -> None:
        if self._live:
            self._live.update(_panel(state))
            return
        now = time.monotonic()
        text = state.headline() + _running_text(state)
        if now - self._printed_at >= PLAIN_EVERY_S and text != self._printed:
            self._printed_at, self._printed = now, text
            self.console.print(printable(hidden(text)), markup=False)


def _panel(state: SweepState) -> Group:
    bar_width = 40
    filled = int(bar_width * state.done_stages / max(1, state.total_stages))
    bar = Text("━" * filled, style="green") + Text("━" * (bar_width - filled), style="grey37")
    table = Table.grid(padding=(0, 2))
    for entry in state.running[:12]:
        begun = f"{100 * entry['fraction']:3.0f} %" if entry["fraction"] else "  ..."
        fraction = "waits" if entry.get("waits") else begun
        since = duration(max(0.0, time.time() - entry["since"]))  # a clock may be set back meanwhile
        text = f"for {entry['waits']}" if entry.get("waits") else hidden(entry["text"])
        stage, text = Text(shortened(stage_title(entry["stage"])), style="cyan"), Text(shortened(text))
        table.add_row(stage, Text(shortened(entry["fingerprint"][:8])), fraction, since, text)
    if len(state.running) > 12:
        table.add_row(Text(f"and {len(state.running) - 12} more waiting or running"))
    return Group(Text(printable(state.headline())), bar, table)


def _running_text(state: SweepState) -> str:
    """What runs, and what waits for what, such as ` | running: target x2 | waiting for a free CPU core: attack`."""
    counts: dict[str, Counter[str]] = {"running": Counter()}
    for entry in state.running:
        doing = f"waiting for {entry['waits']}" if entry.get("waits") else "running"
        counts.setdefault(doing, Counter())[stage_title(entry["stage"])] += 1
    listed = {
        word: ", ".join(f"{name} x{count}" if count > 1 else name for name, count in names.items())
        for word, names in counts.items()
    }
    return "".join(f" | {word}: {names}" for word, names in listed.items() if names)
