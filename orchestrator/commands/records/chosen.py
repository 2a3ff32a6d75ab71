"""What of a store a name means: a sweep, one of its recipes, or a trial."""

from __future__ import annotations

import re
from dataclasses import dataclass

from smoothsweep.core.errors import InputError
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import brief, shown
from smoothsweep.orchestrator.planning.trial_notes import TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.common.base import Store

_TRIAL = re.compile(r"[0-9a-f]{4,12}")  # an id, or how it begins


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a name means: the trials of `sweep` that were asked for, at least one."""

    name: str
    sweep: str
    trials: tuple[TrialNote, ...]

    @property
    def is_one(self) -> bool:
        return len(self.trials) == 1

    @property
    def title(self) -> str:
        """As a line says it."""
        if self.is_one:
            return f"trial {self.trials[0].trial} of {self.sweep}: {self.trials[0].label}"
        return f"{self.name}: {len(self.trials)} trials"


def chosen(store: Store, name: str) -> Chosen:
    """A sweep by its name, trials of it as SWEEP:axis=value,axis=value, or a trial by its id or the beginning of one.

    Raises InputError, naming what there is, for everything else.
    """
    known = store.sweeps()
    sweep, colon, wanted = name.partition(":")
    if sweep in known:
        return Chosen(name=name, sweep=sweep, trials=_with_axes(name, _noted(store, sweep), wanted if colon else None))
    if not colon and _TRIAL.fullmatch(name):
        return _trial(store, name, known)
    there = ", ".join(known[:20]) or "none"
    expected = f"expected a sweep of {store.location} ({there}), SWEEP:axis=value, or the id of a trial"
    raise InputError(f"{expected}, got {shown(name)}{suggestion(sweep, known)}")


def _noted(store: Store, sweep: str) -> list[TrialNote]:
    if trials := read_trial_notes(store, sweep):
        return trials
    raise InputError(
        f"sweep {brief(sweep)}: expected {TRIALS_FILE} in {store.location}, got none: smoothsweep report "
        "with its sweep file writes it"
    )


def _trial(store: Store, name: str, known: list[str]) -> Chosen:
    """The trial whose id begins so; one that several sweeps share is one."""
    found: dict[str, Chosen] = {}
    for sweep in known:
        for trial in read_trial_notes(store, sweep):
            if trial.trial.startswith(name):
                found.setdefault(trial.trial, Chosen(name=name, sweep=sweep, trials=(trial,)))
    if len(found) != 1:
        got = f"{len(found)}: {', '.join(sorted(found)[:5])}" if found else "none"
        raise InputError(f"trial {name}: expected one trial in {store.location} whose id begins so, got {got}")
    return next(iter(found.values()))


def _with_axes(name: str, trials: list[TrialNote], wanted: str | None) -> tuple[TrialNote, ...]:
    if wanted is None:
        return tuple(trials)
    axes = list(dict.fromkeys(axis for trial in trials for axis in (*trial.axes, "seed")))
    asked = []
    for part in wanted.split(","):
        axis, equals, value = part.partition("=")
        if not equals or axis not in axes:
            expected = f"expected axis=value with an axis of {', '.join(axes)}"
            raise InputError(f"{brief(name)}: {expected}, got {shown(part)}{suggestion(axis, axes)}")
        asked.append((axis, value))
    found = tuple(t for t in trials if all(_is(_value(t, axis), value) for axis, value in asked))
    if not found:
        values = sorted({str(_value(trial, asked[0][0])) for trial in trials})
        raise InputError(
            f"{brief(name)}: expected trials with these values, got none; {asked[0][0]} is one of "
            f"{', '.join(values[:20])}"
        )
    return found


def _value(trial: TrialNote, axis: str) -> object:
    return trial.seed if axis == "seed" else trial.axes.get(axis)


def _is(value: object, wanted: str) -> bool:
    if str(value) == wanted:
        return True
    try:
        return isinstance(value, int | float) and float(value) == float(wanted)
    except ValueError:
        return False
