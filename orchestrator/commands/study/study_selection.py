"""Which recipes and which attack a study is about, and whether their pictures are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.reading.axes import by_attack, sweep_axes
from smoothsweep.orchestrator.reading.numbers.format import ascii_text
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.paper_numbers import matching, printed_rows
from smoothsweep.sweeps.paper_settings import recipe_axes

PREFERENCE_TABLE, PREFERENCE = "13", "user_preference"
MOST_RECIPES = 6
"""Pictures that one can compare at a glance, and that fit a phone."""


@dataclass(frozen=True, kw_only=True)
class StudySelection:
    """What is shown.

    Attributes:
        recipes: The recipes' names.
        stages: Training seed -> the stages of each recipe, in the order of `recipes`.
        data: The stages whose training images are shown.
        published: What the paper's annotators preferred, by recipe.
    """

    attack: str
    recipes: tuple[str, ...]
    stages: Mapping[int, tuple[InversionStages, ...]]
    data: InversionStages
    published: tuple[float | None, ...]


def select_study(
    loaded: LoadedSweep, trials: Sequence[Trial], store: Store, attack: str | None, recipes: Sequence[str]
) -> StudySelection:
    """Raises InputError where it is open which attack or recipes are meant, or their pictures are not in the store."""
    all_trials, trials = trials, [trial for trial in trials if as_inversion(trial.settings).attack is not None]
    if all_trials and not trials:
        raise InputError(f"{loaded.source}: attack: expected one whose images people compare, got null")
    groups = by_attack([trial for trial in trials if trial.phase == "sweep"], sweep_axes(loaded, trials))
    name, cells = _attack(loaded, groups, attack)
    chosen = _recipes(loaded, cells, recipes)
    stages = _with_pictures(loaded, chosen, store)
    first = next(iter(stages.values()))
    if len({json.dumps(json.loads(store.needed_file(stage.data, "names.json").read_text())) for stage in first}) > 1:
        raise InputError(f"{loaded.source}: expected recipes trained on the same people, got others")
    attacks = {as_inversion(trials[0].settings).inverted_by.label for trials in chosen.values()}
    return StudySelection(
        attack=name or attacks.pop(),
        recipes=tuple(chosen),
        stages=stages,
        data=first[0],
        published=published_preferences(loaded, [trials[0] for trials in chosen.values()]),
    )


def _attack(
    loaded: LoadedSweep, groups: Mapping[str, Mapping[str, list[Trial]]], wanted: str | None
) -> tuple[str, Mapping[str, list[Trial]]]:
    """The attack asked for, or the only one that is no control."""
    if not groups:
        raise InputError(f"{loaded.source}: expected recipes to compare, got none: the search has proposed none yet")
    if wanted is not None:
        for name, cells in groups.items():
            if ascii_text(name) == ascii_text(wanted):
                return name, cells
        raise InputError(
            f"--attack: expected {_one_of(groups) or 'none, since there is one'}, got {shortened(wanted)!r}"
        )
    real = {name: cells for name, cells in groups.items() if not next(iter(cells.values()))[0].is_control} or groups
    if len(real) > 1:
        raise InputError(f"{loaded.source}: expected --attack {_one_of(real)}, got none")
    return next(iter(real.items()))


def _recipes(loaded: LoadedSweep, cells: Mapping[str, list[Trial]], wanted: Sequence[str]) -> dict[str, list[Trial]]:
    """The recipes asked for in that order, else all."""
    known = {ascii_text(name): name for name in cells}
    for name in wanted:
        if ascii_text(name) not in known:
            raise InputError(f"--recipe: expected {_one_of(cells)}, got {shortened(name)!r}")
        if sum(ascii_text(other) == ascii_text(name) for other in wanted) > 1:
            raise InputError(f"--recipe: expected each once, got {shortened(name)!r} twice")
    chosen = {known[ascii_text(name)]: cells[known[ascii_text(name)]] for name in wanted or cells}
    if len(chosen) < 2:
        raise InputError(f"{loaded.source}: expected at least 2 recipes to choose between, got {len(chosen)}")
    if len(chosen) > MOST_RECIPES:
        which = "name those to show with --recipe"
        raise InputError(f"{loaded.source}: expected at most {MOST_RECIPES} recipes, got {len(chosen)}: {which}")
    return chosen


def _with_pictures(
    loaded: LoadedSweep, chosen: Mapping[str, list[Trial]], store: Store
) -> dict[int, tuple[InversionStages, ...]]:
    """Training seed -> stages by recipe, of the seeds under which every recipe's reconstructions are in the store."""
    by_recipe: dict[str, dict[int, InversionStages]] = {}
    for recipe, trials in chosen.items():
        every = {trial.seed: inversion_stages(as_inversion(trial.settings), trial.seed) for trial in trials}
        by_recipe[recipe] = {seed: stages for seed, stages in every.items() if stages.has_pictures(store)}
        if not by_recipe[recipe]:
            raise InputError(
                f"{loaded.source}: expected reconstructions of {ascii_text(recipe)} in {store.location}, got none: "
                "smoothsweep run makes them"
            )
    shared = [seed for seed in next(iter(by_recipe.values())) if all(seed in seeds for seeds in by_recipe.values())]
    if not shared:
        raise InputError(f"{loaded.source}: expected reconstructions of all recipes under one seed, got none")
    return {seed: tuple(seeds[seed] for seeds in by_recipe.values()) for seed in shared}


def published_preferences(loaded: LoadedSweep, trials: Sequence[Trial]) -> tuple[float | None, ...]:
    """The paper's shares, where these are the very recipes that its annotators chose between."""
    nothing = (None,) * len(trials)
    reference = loaded.sweep.paper
    if reference is None or any(trial.settings.paper is None for trial in trials):
        return nothing
    dataset = reference.dataset_of(as_inversion(trials[0].settings).data)
    rows = printed_rows(PREFERENCE_TABLE)
    if dataset not in {row.first.dataset for row in rows}:
        return nothing
    axes = [recipe_axes(as_inversion(trial.settings), dataset, PREFERENCE_TABLE) for trial in trials]
    matches = [matching(axis_values, PREFERENCE_TABLE) if axis_values else None for axis_values in axes]
    theirs = {row.first.row for row in rows if row.first.dataset == dataset}
    if {row.first.row for row in matches if row is not None} != theirs or len(matches) != len(theirs):
        return nothing
    return tuple(present(row, "row").numbers[PREFERENCE].value for row in matches)


def _one_of(names: Mapping[str, object]) -> str:
    quoted = [repr(ascii_text(shortened(name))) for name in names if name]
    return f"one of {', '.join(quoted)}" if quoted else ""
