"""What of a store a name means: a sweep, one of its recipes, or a trial."""

from __future__ import annotations

import re
from dataclasses import dataclass

from smoothsweep.core.errors import InputError
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import counted, quoted, shortened
from smoothsweep.orchestrator.commands.records.selection import plain_name, selected
from smoothsweep.orchestrator.planning.trial_notes import TRIALS_FILE, TrialNote, read_trial_notes
from smoothsweep.orchestrator.store.common.base import Store

_TRIAL = re.compile(r"[0-9a-f]{4,12}")  # an id, or how it begins


@dataclass(frozen=True, kw_only=True)
class NamedTrials:
    """What a name means: the trials of `sweep` that were asked for, at least one."""

    name: str
    sweep: str
    trials: tuple[TrialNote, ...]

    @property
    def is_single_trial(self) -> bool:
        return len(self.trials) == 1

    @property
    def title(self) -> str:
        """What is chosen, as a line says it."""
        if self.is_single_trial:
            return f"trial {self.trials[0].trial} of {self.sweep}: {plain_name(self.trials[0].name)}"
        return f"{self.name}: {counted(len(self.trials), 'trial')}"


def find_trials(store: Store, name: str) -> NamedTrials:
    """A sweep by its name, trials of it as SWEEP:RECIPE or SWEEP:axis=value,axis=value, a recipe by the name that the
    report prints where one sweep alone has it, or a trial by its id or the beginning of one.

    Raises InputError, naming what there is, for everything else.
    """
    known = store.sweeps()
    sweep, colon, wanted = name.partition(":")
    if sweep in known:
        trials = _noted(store, sweep)
        return NamedTrials(name=name, sweep=sweep, trials=selected(name, trials, wanted) if colon else tuple(trials))
    if not colon and _TRIAL.fullmatch(name):
        return _trial(store, name, known)
    if of_recipe := _recipe(store, name, known):
        return of_recipe
    there = ", ".join(known[:20]) or "none"
    ways = "SWEEP:RECIPE, SWEEP:axis=value, or the id of a trial"
    expected = f"expected a sweep of {store.location} ({there}), {ways}"
    raise InputError(f"{expected}, got {quoted(name)}{suggestion(sweep, known)}")


def _noted(store: Store, sweep: str) -> list[TrialNote]:
    if trials := read_trial_notes(store, sweep):
        return trials
    raise InputError(
        f"sweep {shortened(sweep)}: expected {TRIALS_FILE} in {store.location}, got none: smoothsweep report "
        "with its sweep file writes it"
    )


def _recipe(store: Store, name: str, known: list[str]) -> NamedTrials | None:
    """The recipe of this name. Raises InputError where several sweeps have one."""
    wanted = plain_name(name)
    by_sweep = {}
    for sweep in known:
        if trials := tuple(note for note in read_trial_notes(store, sweep) if plain_name(note.recipe) == wanted):
            by_sweep[sweep] = trials
    if len(by_sweep) > 1:
        names = ", ".join(f"{sweep}:{wanted}" for sweep in [*by_sweep][:5])
        raise InputError(
            f"{shortened(name)}: expected a recipe that one sweep has, got {len(by_sweep)}: {shortened(names)}"
        )
    return next((NamedTrials(name=name, sweep=sweep, trials=trials) for sweep, trials in by_sweep.items()), None)


def _trial(store: Store, name: str, known: list[str]) -> NamedTrials:
    """The trial whose id begins so; one that several sweeps share is one."""
    by_id: dict[str, NamedTrials] = {}
    for sweep in known:
        for trial in read_trial_notes(store, sweep):
            if trial.trial.startswith(name):
                by_id.setdefault(trial.trial, NamedTrials(name=name, sweep=sweep, trials=(trial,)))
    if len(by_id) != 1:
        got = f"{len(by_id)}: {', '.join(sorted(by_id)[:5])}" if by_id else "none"
        raise InputError(f"trial {name}: expected one trial in {store.location} whose id begins so, got {got}")
    return next(iter(by_id.values()))
