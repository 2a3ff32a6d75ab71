"""What a running sweep tells `smoothsweep status`: one small file, replaced every second."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import psutil
from pydantic import BaseModel, Field

from smoothsweep.core.text import counted, duration
from smoothsweep.core.writers import machine_id
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store, classes_of
from smoothsweep.orchestrator.store.notes import read_lines, read_note, write_lines
from smoothsweep.tasks.classes import CLASSES_FOLDER, classes_without_file

STATE_FILE = "state.json"
FRESH_S = 60.0
NO_ANSWER_S = 60.0  # so little of known length beside stages of unknown length would only mislead


@dataclass
class SweepState:
    """Everything the display needs, kept by the driver."""

    name: str
    total_stages: int = 0
    done_stages: int = 0
    total_trials: int = 0
    done_trials: int = 0
    failed_trials: int = 0
    running: list[dict[str, Any]] = field(default_factory=list)
    seconds_left: float | None = None
    unknown_stages: int = 0  # of which no time is known; seconds_left is of the others
    started: float = field(default_factory=time.monotonic)

    def headline(self) -> str:
        elapsed = duration(time.monotonic() - self.started)
        known, unknown = self.seconds_left or 0.0, self.unknown_stages
        parts = [f"about {duration(known)}"] if known and not (unknown and known < NO_ANSWER_S) else []
        parts += [f"{counted(unknown, 'stage')} of unknown length"] if unknown else []
        left = f", {' and '.join(parts)} left" if parts else ""
        failed = f", {self.failed_trials} failed" if self.failed_trials else ""
        return (
            f"{self.name}: {self.done_stages}/{self.total_stages} stages, "
            f"{self.done_trials}/{self.total_trials} trials{failed}, {elapsed}{left}"
        )


class RunningNote(BaseModel, extra="allow"):
    """A stage at work, as `status` shows it."""

    stage: str
    fingerprint: str
    fraction: float = 0.0
    text: str = ""


class StateNote(BaseModel):
    """The state file. failures, stopped: trial id -> why."""

    host: str
    pid: int
    time: float
    finished: bool
    running: list[RunningNote]
    failures: dict[str, str]
    stopped: dict[str, str] = {}
    place: str
    headline: str = ""


def write_state(
    store: Store,
    name: str,
    state: SweepState,
    failures: dict[str, str],
    *,
    finished: bool,
    stopped: dict[str, str] | None = None,
) -> None:
    """Replace the state file. `running` entries keep what `status` shows. stopped: trials left open -> why."""
    content = {
        "host": socket.gethostname(),
        "place": machine_id(),
        "pid": os.getpid(),
        "time": time.time(),
        "finished": finished,
        "running": [] if finished else state.running,
        "failures": failures,
        "stopped": stopped or {},
        "headline": state.headline(),
    }
    store.write_note(name, STATE_FILE, json.dumps(content, indent=1).encode())


def read_state(store: Store, name: str) -> dict[str, Any] | None:
    """The last state with `alive`: whether its driver still runs. None if the sweep never ran."""
    note = read_note(store, name, STATE_FILE, StateNote, "what it said of earlier failures is forgotten")
    if note is None:
        return None
    state = note.model_dump()
    fresh = abs(time.time() - state["time"]) < FRESH_S  # a time in the future is that of a clock since set back
    is_here = state["place"] == machine_id()  # where process numbers mean the same: containers may share a host name
    state["alive"] = not state["finished"] and (_is_driver(state["pid"]) if is_here else fresh)
    return state


def other_driver(store: Store, name: str) -> str | None:
    """One line if another driver works on this sweep at this moment."""
    state = read_state(store, name)
    if state is None or not state["alive"] or (state["place"], state["pid"]) == (machine_id(), os.getpid()):
        return None
    who = f"another driver (process {state['pid']} on {state['host']})"
    return f"{who} is at work on {name}; this one goes on beside it, and each uses what the other has made"


def _is_driver(pid: int) -> bool:
    """Whether the process of that number is a driver still: numbers are used again."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any("smoothsweep" in word or "orchestrator" in word for word in words[:4])


def read_failures(store: Store, name: str) -> dict[str, str]:
    state = read_state(store, name)
    return state["failures"] if state else {}


_OF = re.compile(r"(\d+)/(\d+)")


class StageProgress(NamedTuple):
    """The fraction of a running stage that is done, in [0, 1], and `epoch 31 of 48`, `9 of 16 classes`, or nothing."""

    fraction: float
    words: str


def read_stage_progress(stages: Iterable[Stage], store: Store) -> dict[str, StageProgress]:
    """Fingerprint -> how far, for those of these unfinished stages that have left something. Brings no artifact here
    but the class names of what is attacked."""
    ready = [stage for stage in stages if all(store.has(source) for source in stage.inputs.values())]
    progress: dict[str, StageProgress] = {}
    for stage, mark in zip(ready, store.marks(ready), strict=True):
        if not stage.task.shard:
            if mark:
                progress[stage.fingerprint] = StageProgress(mark["fraction"], _OF.sub(r"\1 of \2", mark["text"]))
        elif folder := store.kept(stage, CLASSES_FOLDER):  # what tasks of any number of machines have finished
            classes = classes_of(stage, store)
            done = len(classes) - len(classes_without_file(classes, folder))
            progress[stage.fingerprint] = StageProgress(done / len(classes), f"{done} of {len(classes)} classes")
    return progress


TRIALS_FILE = "trials.jsonl"
DOT = "\u00b7"
"""Stands between the parts of a trial's name."""


Named = Callable[[Trial], tuple[str, str]]
"""A trial's recipe and attack, as the report calls them; the attack is empty where the sweep has one alone."""


class TrialNote(BaseModel):
    """A trial by its id.

    Attributes:
        axes: Short name -> value.
        stages: Kind -> fingerprint of those whose metrics make the row.
        recipe, attack: What the report calls them; the attack is empty where the sweep has one alone.
    """

    trial: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    label: str
    seed: int
    phase: str
    recipe: str
    attack: str
    axes: dict[str, Any]
    stages: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")], Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    ]

    @property
    def name(self) -> str:
        """The name of the trial in every output."""
        return trial_name(self.recipe, self.attack, self.seed, self.phase)


def trial_name(recipe: str, attack: str, seed: int, phase: str) -> str:
    """`plain training · attack loss logit · seed 61`.

    Args:
        recipe, attack: As the report calls them, the attack perhaps empty.
        phase: As `Trial.phase` has it, "sweep" untold.
    """
    parts = (recipe, attack, f"seed {seed}", "" if phase == "sweep" else phase)
    return f" {DOT} ".join(filter(None, parts))


def write_trial_notes(store: Store, name: str, trials: Sequence[Trial], named: Named) -> None:
    """Replace the note of a sweep's trials as a whole. named: what the report calls them."""
    notes = [
        TrialNote(
            trial=trial.id,
            label=trial.label,
            seed=trial.seed,
            phase=trial.phase,
            recipe=recipe,
            attack=attack,
            axes=trial.cell.axes,
            stages={stage.name: stage.fingerprint for stage in trial.stages},
        ).model_dump(mode="json")
        for trial in trials
        for recipe, attack in [named(trial)]
    ]
    write_lines(store, name, TRIALS_FILE, notes)


def read_trial_notes(store: Store, name: str) -> list[TrialNote]:
    """The trials of a sweep in its order; none where no report of it was written, or the note is damaged."""
    return read_lines(store, name, TRIALS_FILE, (TrialNote,), "smoothsweep report writes it again")
