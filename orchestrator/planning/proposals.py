"""What a search, or looks, have proposed: one line each, in the sweep's folder. And the trials it comes to.

    <store>/sweeps/<name>/search/proposals.jsonl     first line: of which search; then one proposal per line
    <store>/sweeps/<name>/reaudit.json               the recipes chosen for a re-audit

The file is replaced as a whole with every proposal, before any of its trials runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.shared import canonical_json
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, read_note, write_lines
from smoothsweep.sweeps.expand import OF_THE_ATTACKER, Cell, CellMaker, expand
from smoothsweep.sweeps.loaded import LoadedSweep

PROPOSALS, REAUDIT = "search/proposals.jsonl", "reaudit.json"


class _Head(BaseModel, extra="forbid"):
    search: dict[str, Any]


class _ProposalLine(BaseModel, extra="forbid"):
    number: int
    values: dict[str, Any]
    rung: int | None = None
    origin: str = "random"
    of: int | None = None
    seeds: int | None = None
    look: int | None = None


class _ReauditNote(BaseModel, extra="forbid"):
    seeds: list[int]
    recipes: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One recipe to try.

    Attributes:
        number: from 0, in the order of proposing.
        values: dotted key -> value.
        rung: index of the cheap attack it meets, None for the full one.
        origin: how it was chosen.
        of: the number of an earlier proposal of this recipe, which now meets a later rung, an audit or more seeds.
        seeds: how many of the sweep's seeds it meets, in their order; None for all.
        look: the look, from 0, that the recipe gets its seeds for; None in a search.
    """

    number: int
    values: dict[str, Any]
    rung: int | None = None
    origin: str = "random"
    of: int | None = None
    seeds: int | None = None
    look: int | None = None


class ProposalFile:
    """Reads and appends the proposals of one search."""

    def __init__(self, loaded: LoadedSweep, store: Store) -> None:
        self.store, self.name = store, loaded.sweep.name
        self.search = search_of(loaded)
        self.what = "the search" if loaded.sweep.search else "the design of the looks"
        self._held: list[dict[str, Any]] = []  # what the file holds, once it is open for appending

    def read(self) -> list[Proposal]:
        """All proposals of this search; none if there are none, or only those of another one."""
        lines = self._lines()
        if not lines or lines[0].get("search") != self.search:
            return []
        return [Proposal(**line) for line in lines[1:]]

    def open_for_appending(self) -> str | None:
        """Make the file ready. Proposals of another search are put aside; what is said about it, or None."""
        lines, said = self._lines(), None
        if lines and lines[0].get("search") != self.search:
            aside = f"search/proposals-{sha256(canonical_json(lines).encode()).hexdigest()[:8]}.jsonl"
            write_lines(self.store, self.name, aside, lines)
            said = f"{self.what} has changed: its {len(lines) - 1} earlier proposals lie in {aside}; it starts anew"
            lines = []
        self._write([{"search": self.search}, *lines[1:]])
        return said

    def append(self, proposal: Proposal) -> None:
        """Add a line; it is on the disk when this returns."""
        self._write([*self._held, {key: value for key, value in vars(proposal).items() if value is not None}])

    def _write(self, lines: list[dict[str, Any]]) -> None:
        write_lines(self.store, self.name, PROPOSALS, lines)
        self._held = lines

    def _lines(self) -> list[dict[str, Any]]:
        again = f"{self.what} proposes the same again, and what the store has of it is not made again"
        lines = read_lines(self.store, self.name, PROPOSALS, [_Head, _ProposalLine], again)
        return [line.model_dump(exclude_unset=True) for line in lines]


def search_of(loaded: LoadedSweep) -> dict[str, Any]:
    """What decides what a search proposes, apart from outcomes: another search never goes on with its proposals.

    How many recipes it may propose is no part of it, except where the number shapes all that follows (`count_shapes`).
    """
    search = loaded.sweep.search
    if search is None:
        return _looks_of(loaded)
    without = set() if search.row.count_shapes else {"recipes"}
    given = search.model_dump(mode="json", exclude=without, exclude_none=True)
    return {**given, "baseline": {key: value for key, value in loaded.sweep.baseline.items() if key in search.space}}


def _looks_of(loaded: LoadedSweep) -> dict[str, Any]:
    """What decides what looks propose: the design, and all recipes, attacks and the baseline that it is about."""
    sweep = loaded.sweep
    asked = {"grid": sweep.grid, "cells": list(sweep.cells), "baseline": sweep.baseline}
    return {"looks": loaded.looks.model_dump(mode="json"), **asked}


class TrialMaker:
    """Makes the trials of proposals, for one sweep."""

    def __init__(self, loaded: LoadedSweep) -> None:
        self.loaded = loaded
        self.make = CellMaker(loaded)
        self.attacks = loaded.sweep.combinations

    def __call__(self, proposal: Proposal) -> list[Trial]:
        """Every attack under the first seed, then all under the next."""
        rung = None if proposal.rung is None else self.loaded.search.rungs[proposal.rung]
        phase = "sweep" if rung is None and proposal.seeds is None else "proxy"
        seeds = self.loaded.sweep.every_seed[: proposal.seeds]
        return self.under(proposal.values, seeds, phase, rung.set if rung else None)

    def under(
        self, recipe: dict[str, Any], seeds: tuple[int, ...], phase: str, beside: dict[str, Any] | None = None
    ) -> list[Trial]:
        """A recipe's trials under these seeds."""
        cells = [self.make({**recipe, **attack}, beside) for attack in self.attacks]
        return [Trial(cell=cell, seed=seed, phase=phase) for seed in seeds for cell in cells]

    def identity(self, recipe: dict[str, Any]) -> str:
        """The same for two recipes exactly if they are the same work, whatever their values are called."""
        cell = self.make({**recipe, **self.attacks[0]})
        return Trial(cell=cell, seed=self.loaded.sweep.every_seed[0]).id


class LookMaker:
    """Makes the trials of a sweep with looks. recipes: all of them, the baseline first, each with its cells.

    Raises InputError unless one recipe is the baseline and another is beside it.
    """

    def __init__(self, loaded: LoadedSweep) -> None:
        self.looks = loaded.sweep.looks
        found: dict[str, list[Cell]] = {}
        for cell in expand(loaded):
            found.setdefault(canonical_json(recipe_of(cell.values)), []).append(cell)
        cells = sorted(found.values(), key=lambda mine: not any(cell.is_baseline for cell in mine))
        baselines = sum(any(cell.is_baseline for cell in mine) for mine in cells)
        if baselines != 1 or len(cells) < 2:
            expected = "expected a baseline that is one recipe, and another beside it"
            raise InputError(f"{loaded.source}: seeds.looks: {expected}, got {baselines} of {len(cells)} recipes")
        self.recipes = [(recipe_of(mine[0].values), mine) for mine in cells]
        self._cells = {canonical_json(recipe): mine for recipe, mine in self.recipes}

    def __call__(self, proposal: Proposal) -> list[Trial]:
        """The trials that a recipe gets for a look, those of the looks before left out."""
        known = len(present(self.looks, "looks").of_look(proposal.look - 1)) if proposal.look else 0
        seeds = present(self.looks, "looks").of_look(present(proposal.look, "look"))[known:]
        cells = self._cells[canonical_json(proposal.values)]
        return [Trial(cell=cell, seed=seed) for seed in seeds for cell in cells]


def maker_of(loaded: LoadedSweep) -> TrialMaker | LookMaker:
    """What makes the trials of a sweep that proposes."""
    return TrialMaker(loaded) if loaded.sweep.search else LookMaker(loaded)


def proposed_trials(loaded: LoadedSweep, store: Store) -> list[Trial]:
    """The trials of everything proposed so far, in the order of proposing.

    Those of a recipe that met more seeds later are there once, as part of the last that was proposed of it.
    """
    make, proposals = maker_of(loaded), ProposalFile(loaded, store).read()
    trials = [trial for proposal in proposals for trial in make(proposal)]
    if any(proposal.seeds is not None for proposal in proposals):
        trials = list({trial.id: trial for trial in trials}.values())
    return trials


def later_trials(loaded: LoadedSweep, store: Store) -> list[Trial]:
    """The trials that looks have proposed after the first."""
    later = [proposal for proposal in ProposalFile(loaded, store).read() if proposal.look]
    if not later:
        return []
    make = LookMaker(loaded)
    return [trial for proposal in later for trial in make(proposal)]


def write_reaudit(loaded: LoadedSweep, store: Store, recipes: list[dict[str, Any]]) -> None:
    """Record which recipes are to be audited again: dotted key -> value, the keys of the attacker left out."""
    content = {"seeds": list(loaded.reaudit.seeds), "recipes": recipes}
    store.write_note(loaded.sweep.name, REAUDIT, json.dumps(content, indent=1).encode())


def read_reaudit(loaded: LoadedSweep, store: Store) -> list[dict[str, Any]] | None:
    """The recipes of a re-audit under the seeds that the sweep asks for; None if none was begun."""
    if loaded.sweep.reaudit is None:
        return None
    note = read_note(store, loaded.sweep.name, REAUDIT, _ReauditNote, "the recipes are chosen again")
    return None if note is None else note.recipes


def reaudit_trials(loaded: LoadedSweep, store: Store) -> list[Trial]:
    """The trials of the re-audit that the store knows of."""
    recipes = read_reaudit(loaded, store)
    if not recipes:
        return []
    if loaded.sweep.search:
        make = TrialMaker(loaded)
        return [t for recipe in recipes for t in make.under(recipe, loaded.reaudit.seeds, "reaudit")]
    return grid_reaudit(loaded, recipes)


def grid_reaudit(loaded: LoadedSweep, recipes: list[dict[str, Any]]) -> list[Trial]:
    """Of a grid: the cells of these recipes, under every attack they met."""
    wanted = {canonical_json(recipe) for recipe in recipes}
    cells = [cell for cell in expand(loaded) if canonical_json(recipe_of(cell.values)) in wanted]
    return [Trial(cell=cell, seed=seed, phase="reaudit") for seed in loaded.reaudit.seeds for cell in cells]


def recipe_of(values: dict[str, Any]) -> dict[str, Any]:
    """The defender's part of a cell's values."""
    return {key: value for key, value in values.items() if key.split(".")[0] not in OF_THE_ATTACKER}
