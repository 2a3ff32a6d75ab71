"""One trial: a recipe, an attack and its judges under one seed. Which stages it is made of, and how they run.

And all trials of a sweep: those of its file, and those that a search, or looks, have proposed, a line each in a file
that is replaced as a whole with every proposal, before any of its trials runs.

    <store>/sweeps/<name>/search/proposals.jsonl     first line: of which search; then one proposal per line
    <store>/sweeps/<name>/reaudit.json               the recipes chosen for a re-audit
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import plugin_version
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.stages.graph import (
    attack_stage,
    data_stage,
    judge_stages,
    reconstruction_sizes,
    reconstruction_stage,
    target_stage,
    wants_decoded,
)
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_lines, read_note, write_lines
from smoothsweep.sweeps.expand import (
    OF_THE_ATTACKER,
    Cell,
    LoadedSweep,
    Sweep,
    as_inversion,
    settings_words,
    values_text,
)
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep, ToySweep


@dataclass(frozen=True, kw_only=True)
class InversionStages:
    """The stages of one trial, in the order they are needed; attack and reconstructions are None without an attack.

    judges: name of the stage -> the last stage of every judge that is heard.
    """

    data: Stage
    target: Stage
    attack: Stage | None
    reconstructions: Stage | None
    judges: Mapping[str, Stage]

    @property
    def inverted(self) -> Stage:
        """The reconstructions of a trial that has an attack. Raises ValueError, naming them, of one that has none."""
        return present(self.reconstructions, "reconstructions")

    def has_pictures(self, store: Store) -> bool:
        """Whether the reconstructions are there, and the images that they are of."""
        return store.has(self.inverted) and store.has(self.data)

    def __iter__(self) -> Iterator[Stage]:
        made = (self.data, self.target, self.attack, self.reconstructions, *self.judges.values())
        return (stage for stage in made if stage is not None)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One row of the results. `id` is the fingerprint (12 hex digits) of the stages that make its numbers.

    phase: what the row is for: "sweep", "proxy" (the cheap attack of a rung, or a recipe that has met only some of the
    seeds) or "reaudit" (fresh seeds).
    """

    cell: Cell
    seed: int
    phase: str = "sweep"

    @property
    def settings(self) -> Sweep:
        return self.cell.settings

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages whose metrics make the row."""
        if isinstance(self.settings, ToySweep):
            return [Stage(name="toy", config={"alpha": self.settings.alpha})]
        return [*inversion_stages(self.settings, self.seed)]

    @cached_property
    def id(self) -> str:
        return sha256(" ".join(stage.fingerprint for stage in self.stages).encode()).hexdigest()[:12]

    @property
    def is_control(self) -> bool:
        """Whether its attack is none, but the line that a leak must exceed."""
        attack = self.settings.attack if isinstance(self.settings, InversionSweep) else None
        return attack is not None and attack.built.control

    @property
    def stated_defense(self) -> dict[str, Any] | None:
        """The defense as the sweep file, or the card of a target brought in, states it."""
        recipe = as_inversion(self.settings).recipe
        if isinstance(recipe, ImportedClassifier):
            return recipe.stated_defense
        return recipe.defense.model_dump(mode="json", exclude_none=True)

    @property
    def recipe_label(self) -> str:
        """`imported NAME`, or the words for the defense."""
        recipe = as_inversion(self.settings).recipe
        if isinstance(recipe, ImportedClassifier):
            return f"imported {printable(recipe.folder.name)}"
        return recipe_words(present(self.stated_defense, "stated defense")).label

    @property
    def label(self) -> str:
        """What tells it from the other trials, on one line; whole attacks, recipes and defenses in their own words."""
        stated = ((name, value) for name, value in self.cell.axes.items() if value is not None)
        values = dict.fromkeys(self._axis_text(name, value) for name, value in stated)  # a defense of several axes once
        return " · ".join([*values, f"seed {self.seed}", *([self.phase] if self.phase != "sweep" else [])])

    def _axis_text(self, name: str, value: Any) -> str:
        key = self.cell.keys.get(name)
        if key == "attack" and as_inversion(self.settings).attack is not None:
            return as_inversion(self.settings).inverted_by.words
        if key in ("recipe", "recipe.defense") or (key or "").startswith("recipe.defense."):
            return self.recipe_label
        if key == "prior" and as_inversion(self.settings).prior is not None:
            return present(as_inversion(self.settings).prior, "prior").words
        stated = self.cell.values.get(key)
        return f"{name} {settings_words(stated) if isinstance(stated, dict) else value}"


def run_trial(trial: Trial, run: Callable[[Stage], None]) -> None:
    """Train the target, invert every class, judge the reconstructions, extract knowledge: the whole experiment.

    `run` makes a stage's artifact (inputs first) or finds it. The caller reads the row from the artifacts. Stages come
    as the trial has them where nothing here says otherwise: first the data and the target, next the judges' classifiers
    that were imported: one whose card is wrong ends the trial before there is anything to judge. What needs no attack
    comes before the attack, which costs most. What asks a service outside comes last.
    """
    sources = [source for stage in trial.stages for source in stage.inputs.values()]
    first = [stage for stage in trial.stages if stage.name in ("data", "target", "imported")]
    brought = [source for source in sources if source.name == "imported"]
    others = sorted(trial.stages, key=lambda stage: (stage.task.asks_elsewhere, "attack" in _names_below(stage)))
    for stage in dict.fromkeys([*first, *brought, *others]):
        run(stage)


def stages_to_start_early(stages: Sequence[Stage]) -> list[Stage]:
    """What the judges of an attack need and the attack does not, as the evaluator's training.

    It is asked for at once, so that no device waits while all open trials wait for one such stage. What asks a service
    outside is left to its place.
    """
    attacks = with_ancestors([stage for stage in stages if stage.name == "attack"])
    known = {stage.fingerprint for stage in [*attacks, *stages]}
    judges = [stage for stage in stages if "attack" in _names_below(stage)]
    needed = [source for judge in judges for source in judge.inputs.values() if source.fingerprint not in known]
    early = [
        stage
        for stage in needed
        if not {"attack", "imported"} & _names_below(stage)
        and not any(source.task.asks_elsewhere for source in with_ancestors([stage]))
    ]
    return list({stage.fingerprint: stage for stage in early}.values())


def _names_below(stage: Stage) -> set[str]:
    return {source.name for source in with_ancestors([stage])}


def inversion_stages(settings: InversionSweep, seed: int) -> InversionStages:
    """The stage graph of one trial. Whatever does not depend on the recipe or the seed is shared by construction."""
    target = target_stage(settings, seed)
    attack = attack_stage(settings, seed, target) if settings.attack is not None else None
    reconstructions = None
    if attack is not None:
        reconstructions = reconstruction_stage(
            settings, reconstruction_sizes(settings), attack, decoded=wants_decoded(settings)
        )
    return InversionStages(
        data=data_stage(settings, settings.recipe.image_size),
        target=target,
        attack=attack,
        reconstructions=reconstructions,
        judges=judge_stages(settings, target, reconstructions),
    )


PROPOSALS, REAUDIT = "search/proposals.jsonl", "reaudit.json"


class _SearchLine(BaseModel, extra="forbid"):
    search: dict[str, Any]


class Proposal(BaseModel, extra="forbid", frozen=True):
    """One recipe to try, and a line of the file.

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

    def line(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {key: value for key, value in self if value is not None}


class _ReauditNote(BaseModel, extra="forbid"):
    seeds: list[int]
    recipes: list[dict[str, Any]]


class ProposalLog:
    """The proposals of a sweep in a store, the recipes chosen there for its re-audit, and the trials of both."""

    def __init__(self, loaded: LoadedSweep, store: Store) -> None:
        self.loaded, self.store, self.name = loaded, store, loaded.sweep.name
        self.what = "the search" if loaded.sweep.search else "the design of the looks"

    @cached_property
    def search(self) -> dict[str, Any]:
        """What decides what is proposed, apart from outcomes: another search never goes on with these proposals.

        Of looks it is the design, and all recipes, attacks and the baseline that it is about. How many recipes a search
        may propose is no part of it, except where the number shapes all that follows (`count_shapes`).
        """
        sweep = self.loaded.sweep
        if sweep.search is None:
            space = {"grid": sweep.grid, "cells": list(sweep.cells), "baseline": sweep.baseline}
            return {"looks": self.loaded.looks.model_dump(mode="json"), **space}
        without = set() if sweep.search.row.count_shapes else {"recipes"}
        stated = sweep.search.model_dump(mode="json", exclude=without, exclude_none=True)
        baseline = {key: value for key, value in sweep.baseline.items() if key in sweep.search.space}
        return {**stated, "baseline": baseline, **plugin_version("search", sweep.search.strategy)}

    @cached_property
    def recipes(self) -> list[tuple[dict[str, Any], list[Cell]]]:
        """The recipes of a sweep with looks, the baseline first, each with its cells.

        Raises InputError unless one recipe is the baseline and another is beside it.
        """
        by_recipe: dict[str, list[Cell]] = {}
        for cell in self.loaded.cells:
            by_recipe.setdefault(canonical_json(recipe_of(cell.values)), []).append(cell)
        recipes = sorted(by_recipe.values(), key=lambda mine: not any(cell.is_baseline for cell in mine))
        baselines = sum(any(cell.is_baseline for cell in mine) for mine in recipes)
        if baselines != 1 or len(recipes) < 2:
            expected = "expected a baseline that is one recipe, and another beside it"
            got = f"{baselines} of {len(recipes)} recipes"
            raise InputError(f"{self.loaded.source}: seeds.looks: {expected}, got {got}")
        return [(recipe_of(mine[0].values), mine) for mine in recipes]

    def trials_of(self, proposal: Proposal) -> list[Trial]:
        """Every attack under the first seed, then all under the next; of a look, without the seeds of those before."""
        sweep, look = self.loaded.sweep, proposal.look
        if sweep.looks is not None and look is not None:
            seeds = sweep.looks.of_look(look)[len(sweep.looks.of_look(look - 1)) if look else 0 :]
            cells = next(cells for recipe, cells in self.recipes if recipe == proposal.values)
            return [Trial(cell=cell, seed=seed) for seed in seeds for cell in cells]
        rung = None if proposal.rung is None else self.loaded.search.rungs[proposal.rung]
        phase = "sweep" if rung is None and proposal.seeds is None else "proxy"
        seeds = sweep.every_seed[: proposal.seeds]
        return self.trials_under(proposal.values, seeds, phase, rung.set if rung else None)

    def trials_under(
        self, recipe: dict[str, Any], seeds: tuple[int, ...], phase: str, beside: dict[str, Any] | None = None
    ) -> list[Trial]:
        """The trials of a search's recipe under these seeds."""
        cells = [self.loaded.make({**recipe, **attack}, beside) for attack in self.loaded.sweep.combinations]
        return [Trial(cell=cell, seed=seed, phase=phase) for seed in seeds for cell in cells]

    def identity(self, recipe: dict[str, Any]) -> str:
        """A string, the same for two recipes exactly if they are the same work, whatever their values are called."""
        cell = self.loaded.make({**recipe, **self.loaded.sweep.combinations[0]})
        return Trial(cell=cell, seed=self.loaded.sweep.every_seed[0]).id

    def trials(self) -> list[Trial]:
        """Every trial: those of the file, those of what was proposed, in that order, those of the re-audit.

        Those of a recipe that met more seeds later are there once, as part of the last that was proposed of it.
        """
        proposals = self.proposals() if self.loaded.sweep.search or self.loaded.sweep.looks else []
        # The file has the first look.
        further = [proposal for proposal in proposals if proposal.look or self.loaded.sweep.search]
        listed = [] if self.loaded.sweep.search else listed_trials(self.loaded)
        trials = [*listed, *(trial for proposal in further for trial in self.trials_of(proposal))]
        if any(proposal.seeds is not None for proposal in further):
            trials = list({trial.id: trial for trial in trials}.values())
        return [*trials, *self.reaudit_trials()]

    def proposals(self) -> list[Proposal]:
        """All proposals of this search; none if there are none, or only those of another one."""
        search, proposals = self._read()
        return proposals if search == self.search else []

    def open_for_appending(self) -> str | None:
        """Make the file ready. Proposals of another search are put aside; what is said about it, or None."""
        (search, proposals), notice = self._read(), None
        if search is not None and search != self.search:
            lines = [{"search": search}, *(proposal.line() for proposal in proposals)]
            aside = f"search/proposals-{sha256(canonical_json(lines).encode()).hexdigest()[:8]}.jsonl"
            write_lines(self.store, self.name, aside, lines)
            notice = f"{self.what} has changed: its {len(proposals)} earlier proposals lie in {aside}; it starts anew"
            proposals = []
        self.write(proposals)
        return notice

    def write(self, proposals: list[Proposal]) -> None:
        """Replace the file; it is on the disk when this returns."""
        lines = [{"search": self.search}, *(proposal.line() for proposal in proposals)]
        write_lines(self.store, self.name, PROPOSALS, lines)

    def _read(self) -> tuple[dict[str, Any] | None, list[Proposal]]:
        again = f"{self.what} proposes the same again, and what the store has of it is not made again"
        lines = read_lines(self.store, self.name, PROPOSALS, [_SearchLine, Proposal], again)
        return (lines[0].search, lines[1:]) if lines else (None, [])

    def write_reaudit(self, recipes: list[dict[str, Any]]) -> None:
        """Record which recipes are to be audited again: dotted key -> value, the keys of the attacker left out."""
        content = {"seeds": list(self.loaded.reaudit.seeds), "recipes": recipes}
        self.store.write_note(self.name, REAUDIT, json.dumps(content, indent=1).encode())

    def reaudit(self) -> list[dict[str, Any]] | None:
        """The recipes of a re-audit under the seeds that the sweep asks for; None if none was begun."""
        if self.loaded.sweep.reaudit is None:
            return None
        note = read_note(self.store, self.name, REAUDIT, _ReauditNote, "the recipes are chosen again")
        return None if note is None else note.recipes

    def reaudit_trials(self) -> list[Trial]:
        """The trials of the re-audit that the store knows of; of a grid, the recipes' cells under every attack."""
        recipes = self.reaudit()
        if not recipes:
            return []
        seeds = self.loaded.reaudit.seeds
        if self.loaded.sweep.search:
            return [trial for recipe in recipes for trial in self.trials_under(recipe, seeds, "reaudit")]
        wanted = {canonical_json(recipe) for recipe in recipes}
        cells = [cell for cell in self.loaded.cells if canonical_json(recipe_of(cell.values)) in wanted]
        return [Trial(cell=cell, seed=seed, phase="reaudit") for seed in seeds for cell in cells]


def listed_trials(loaded: LoadedSweep) -> list[Trial]:
    """The trials of a sweep file: all cells under the first seed, then all under the next; of looks, the first look's.

    Raises InputError for two cells that are the same work: settings that differ in what changes nothing.
    """
    cells, looks = loaded.cells, loaded.sweep.looks
    seeds = looks.of_look(0) if looks else loaded.sweep.every_seed
    trials = [Trial(cell=cell, seed=seed) for seed in seeds for cell in cells]
    seen: dict[str, Trial] = {}
    for trial in trials[: len(cells)]:
        if (other := seen.setdefault(trial.id, trial)) is not trial:
            raise InputError(
                f"{loaded.source}: expected trials that differ, got the same work with "
                f"{values_text(other.cell.values)} and with {values_text(trial.cell.values)}; list the combinations "
                "that differ under cells"
            )
    return trials


def recipe_of(values: dict[str, Any]) -> dict[str, Any]:
    """The defender's part of a cell's values."""
    return {key: value for key, value in values.items() if key.split(".")[0] not in OF_THE_ATTACKER}


def trials_of(loaded: LoadedSweep, store: Store | None = None) -> list[Trial]:
    """Every trial of the sweep: all cells under the first seed, then all under the next.

    Of a search, the trials of what it has proposed so far, which the store knows; of a sweep with looks those of the
    first look, and of the later ones what the store knows. A re-audit that the store knows of comes last.
    """
    if store:
        return ProposalLog(loaded, store).trials()
    return [] if loaded.sweep.search else listed_trials(loaded)
