"""A checked sweep, the one line for what is wrong in its file, and its cells: the grid, value by value, beside the
listed ones."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ValidationError

from smoothsweep.core.checks import present
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.text import printable, quoted, shortened
from smoothsweep.sweeps.base import MAX_KEYS, MAX_TRIALS, dotted_value, first_repeat, set_dotted
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.parts import DATA_KINDS
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep, ToySweep
from smoothsweep.sweeps.search import Reaudit, Search, SeedLooks
from smoothsweep.sweeps.space import Dimension, Values
from smoothsweep.sweeps.training import trial_words

TAGS = {*PRIORS, *DATA_KINDS, "trained_here", "brought_in", "a_number", "another_trial", "a_list", "of_looks"}
"""What pydantic calls the chosen variant of a union in the place of an error; it is no key of the file."""


Sweep = InversionSweep | ToySweep


def as_inversion(sweep: Sweep) -> InversionSweep:
    """A sweep of a kind that trains and inverts targets. Raises ValueError for another."""
    if isinstance(sweep, ToySweep):
        raise ValueError(f"experiment: expected inversion, got {type(sweep).__name__}")
    return sweep


_HARDWARE = re.compile(r"^Hardware: (.+?)(?=^\w+: |^$|\Z)", re.MULTILINE | re.DOTALL)  # up to the next word of its kind


@dataclass(kw_only=True, eq=False)
class LoadedSweep:
    """A checked sweep with the raw settings it came from and the comment that opens its file."""

    sweep: Sweep
    raw: dict[str, Any]
    intro: str
    source: str

    @cached_property
    def names(self) -> dict[str, str]:
        """The dotted key of every axis -> its column in the results."""
        return axis_names(axis_keys(self))

    def make(self, values: dict[str, Any], beside: dict[str, Any] | None = None) -> Cell:
        """The cell of these values, and of further settings that are no axes.

        A listed key after one that it lies in (recipe.defense.alpha after recipe.defense) changes that value. Raises
        InputError where the settings are not valid, naming file, keys and values.
        """
        everything, search = {**values, **(beside or {})}, self.sweep.search
        raw = copy.deepcopy({key: value for key, value in self.raw.items() if key not in SPANNING})
        for key, value in everything.items():
            set_dotted(raw, key, copy.deepcopy(value), where="grid")
        # What a search's space holds and the baseline does not is null there.
        baseline = {**dict.fromkeys(search.space if search else ()), **self.sweep.baseline}
        return Cell(
            axes={name: axis_value(values.get(key)) for key, name in self.names.items()},
            settings=check(raw, f"{self.source} with {values_text(everything)}" if everything else self.source),
            is_baseline=bool(self.sweep.baseline) and all(values.get(key) == value for key, value in baseline.items()),
            values=values,
            other_settings=beside or {},
            keys={name: key for key, name in self.names.items()},
        )

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of the sweep file, as `expand` has them."""
        return expand(self)

    @cached_property
    def choices(self) -> list[Cell]:
        """Valid recipes of a search in which every choice of its space, and both ends of every range, occurs; none of
        another sweep. Raises InputError (one line) where some value can be in none."""
        return _every_choice(self) if self.sweep.search else []

    @cached_property
    def first_recipe(self) -> tuple[Values, Values]:
        """The recipe that a search tries first, since the others are compared with it, {} where the sweep names none;
        and what it has, completed by the sweep file, at the keys of the space."""
        space, baseline = self.search.space, self.sweep.baseline
        named = sorted((key for key in baseline if key in space), key=lambda key: key.count("."))
        recipe = {key: baseline[key] for key in named}
        return recipe, _stated(self.make({**recipe, **self.sweep.combinations[0]}), self.search) if recipe else {}

    @property
    def search(self) -> Search:
        """The search of a sweep that has one. Raises ValueError for another."""
        return present(self.sweep.search, "search")

    @property
    def looks(self) -> SeedLooks:
        """The looks of a sweep that has some. Raises ValueError for another."""
        return present(self.sweep.looks, "looks")

    @property
    def reaudit(self) -> Reaudit:
        """The second audit of a sweep that asks for one. Raises ValueError for another."""
        return present(self.sweep.reaudit, "reaudit")

    @property
    def hardware(self) -> str | None:
        """What the file's opening comment says after "Hardware:", as one line; None where it says nothing of it."""
        match = _HARDWARE.search(self.intro)
        return " ".join(match[1].split()) if match else None


def check(raw: dict[str, Any], source: str) -> Sweep:
    """Validate settings against the schema; InputError naming source and key."""
    experiment = raw.get("experiment", "inversion")
    if not isinstance(experiment, str) or experiment not in SWEEPS:
        raise InputError(f"{source}: experiment: expected one of {', '.join(SWEEPS)}, got {quoted(experiment)}")
    try:
        return SWEEPS[experiment].model_validate(raw)
    except ValidationError as error:
        mistake = first_mistake(error, TAGS)
        raise InputError(f"{source}: {mistake}") from None


COLUMNS = frozenset(
    (
        *("trial", "seed", "phase", "protocol", "status", "failure", "reasons", "prior", "attack", "class", "recipe"),
        *("attack_access", "attack_control", "attack_published", "recipe_architecture", "recipe_defense"),
        *("recipe_defense_parameters", "recipe_alpha", "recipe_schedule", "recipe_epochs", "recipe_workers"),
        *("recipe_poison", *BY_KEY, *TIME_COLUMNS),
    )
)
"""Columns of the results that are no axes: an axis of that name would take another's place."""


def axis_keys(loaded: LoadedSweep) -> list[str]:
    """The dotted keys that tell cells apart, listed ones first.

    The keys of a search's space come before those of its grid. A listed key that follows from those before it (the
    number of steps from the data set, say) is no axis of its own.
    """
    keys: list[str] = []
    listed = loaded.sweep.cells
    for key in listed[0] if listed else ():
        seen: dict[str, Any] = {}
        known = [repr([cell[k] for k in keys]) for cell in listed]
        if any(seen.setdefault(k, cell[key]) != cell[key] for k, cell in zip(known, listed, strict=True)):
            keys.append(key)
    search = loaded.sweep.search
    return [*keys, *(search.space if search else ()), *loaded.sweep.grid]


def axis_names(keys: list[str]) -> dict[str, str]:
    """Dotted key -> the shortest column name that is unambiguous and no other column's: recipe.defense.alpha -> alpha.

    `attack.seed` is not called `seed`, which is the trial's.
    """
    names = {}
    for key in keys:
        parts = key.split(".")
        for length in range(1, len(parts) + 1):
            name = "_".join(parts[-length:])
            others = {"_".join(other.split(".")[-length:]) for other in keys if other != key}
            if name not in others and name not in COLUMNS:
                break
        names[key] = f"attack_{name}" if parts[0] == "attack" and name == "loss" else name
        if names[key] in COLUMNS:  # a whole part of the file, `prior` say
            names[key] = f"{names[key]}_settings"
    return names


def axis_value(value: Any) -> Any:
    """A value as tables show it: a structured one (a schedule, another trial) as compact text, all text as a printable
    line."""
    if isinstance(value, dict) and set(value) == {"trial"} and isinstance(value["trial"], dict):
        value = trial_words(value["trial"])
    elif isinstance(value, dict):
        value = " ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        value = str(value)
    return printable(value, most=len(value)) if isinstance(value, str) else value


def settings_words(value: dict[str, Any]) -> str:
    """A mapping of a sweep file as a table's name for it: `badnets (size 3)`, by its kind where it has one; another
    trial by what is stated of it."""
    if set(value) == {"trial"}:
        return axis_value(value)
    others = {key: each for key, each in value.items() if key != "kind" and each is not None}
    stated = ", ".join(f"{key.replace('_', ' ')} {axis_value(each)}" for key, each in others.items())
    kind = str(value.get("kind", ""))
    words = f"{kind} ({stated})" if kind and stated else kind or stated
    return printable(words, most=len(words))


OF_A_TRIAL = {"data", "public", "recipe", "prior", "attack", "judges", "classes"}
NOT_OF_A_TRIAL = InversionSweep.model_fields.keys() - OF_A_TRIAL
OF_THE_ATTACKER = ("attack", "prior", "public", "classes")
SPANNING = ("grid", "cells", "search", "budget", "reaudit")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One combination of grid values, still without a seed.

    Attributes:
        axes: Short name -> value, in the order of the grid.
        settings: The whole sweep with these values in place.
        values: Dotted key -> value.
        other_settings: What else was set, which is no axis (the cheap attack of a rung).
        keys: The dotted key of every axis.
    """

    axes: dict[str, Any]
    settings: Sweep
    is_baseline: bool
    values: dict[str, Any] = field(default_factory=dict)
    other_settings: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)


def expand(loaded: LoadedSweep) -> list[Cell]:
    """Every listed cell under every combination of the grid.

    Of a search, which proposes its recipes as it goes, only the file's own recipe under every attack. InputError where
    a combination is not valid, or two are the same, naming file, keys and values.
    """
    if mistake := next(_mistakes(loaded.sweep), None):
        raise InputError(f"{loaded.source}: {mistake}")
    chosen = loaded.sweep.cells or [{}]
    cells = [loaded.make({**cell, **combination}) for cell in chosen for combination in loaded.sweep.combinations]
    _refuse_repeats(loaded, cells)
    _refuse_controls_alone(loaded, cells)
    _refuse_unread(loaded, cells)
    return cells


def _mistakes(sweep: Sweep) -> Iterator[str]:
    """What is wrong with the keys and values of the grid, the cells and the baseline; the first is told."""
    listed, searched = sweep.cells[0] if sweep.cells else {}, sweep.search.space if sweep.search else {}
    for place, keys in (("grid", sweep.grid), *((f"cells.{number}", cell) for number, cell in enumerate(sweep.cells))):
        if len(keys) > MAX_KEYS:
            yield f"{place}: expected at most {MAX_KEYS} keys, got {len(keys)}"
    trials = len(sweep.every_seed) * max(1, len(sweep.cells)) * math.prod(map(len, sweep.grid.values()))
    if trials > MAX_TRIALS:
        yield f"grid: expected at most {MAX_TRIALS} trials, got {trials}"
    for key, values in sweep.grid.items():
        if not values:
            yield f"grid.{key}: expected at least one value, got none"
        if twice := first_repeat(values):
            yield f"grid.{key}: expected every value once, got {' and '.join(map(quoted, twice))}"
    for number, cell in enumerate(sweep.cells):
        if set(cell) != set(listed) or not cell:
            expected = ", ".join(listed) or "at least one key"
            yield f"cells.{number}: expected the keys {expected}, got {', '.join(cell)}"
        if both := sorted(set(cell) & set(sweep.grid)):
            yield f"cells.{number}.{both[0]}: expected it here or in grid, got it in both"
    for place, keys in (("grid", sweep.grid), ("cells", listed)):
        for key in keys:
            if key.split(".")[0] in NOT_OF_A_TRIAL:
                yield f"{place}.{key}: expected a key that a trial depends on, got {key}"
    ordered = [*listed, *sweep.grid]
    for index, key in enumerate(ordered):  # of which a later one that it lies in would set it again as a whole
        if holder := next((later for later in ordered[index + 1 :] if key.startswith(f"{later}.")), None):
            yield f"{key}: expected it after {holder}, which sets it again, got it before"
    for key in sweep.grid if sweep.search else ():
        if key in searched:
            yield f"grid.{key}: expected it here or in search.space, got it in both"
        if key.split(".")[0] not in OF_THE_ATTACKER:
            expected = "expected keys of the attacker beside search, which proposes the recipes"
            yield f"grid.{key}: {expected}, got {key}"
    tried = dict(sweep.grid) | {key: [cell[key] for cell in sweep.cells] for key in listed}
    for key, value in sweep.baseline.items():
        # What the space searches is tried before anything is searched, whether or not the space holds it.
        if key not in searched and (key not in tried or value not in tried[key]):
            known = ", ".join([*searched, *tried]) or "empty"
            expected = f"one of {tried[key]}" if key in tried else f"a key of the grid ({known})"
            yield f"baseline.{key}: expected {expected}, got {value!r}"


def _refuse_controls_alone(loaded: LoadedSweep, cells: list[Cell]) -> None:
    """Raise InputError where no cell has an attack: a control is what a leak is measured against.

    Of an imported model controls alone are taken: what an endpoint may be asked can be too little for any attack.
    """
    every = [cell.settings for cell in cells if isinstance(cell.settings, InversionSweep)]
    attacks = [cell.attack for cell in every if cell.attack is not None]
    imported = any(isinstance(cell.recipe, ImportedClassifier) for cell in every)
    if attacks and not imported and all(attack.built.control for attack in attacks):
        kinds = ", ".join(dict.fromkeys(attack.kind for attack in attacks))
        raise InputError(f"{loaded.source}: attack: expected at least one that is no control, got {kinds}")


def _refuse_unread(loaded: LoadedSweep, cells: list[Cell]) -> None:
    """Raise InputError for a prior, or public images, that no attack of the sweep reads, be it in a rung of a search.

    What one attack of a portfolio leaves alone another may need, so that this is said of a sweep, not of a cell.
    """
    seen = [cell.settings for cell in cells if isinstance(cell.settings, InversionSweep)]
    prior = next((settings.prior.kind for settings in seen if settings.prior), None)
    public = next((settings.public.kind for settings in seen if settings.public), None)

    def unread(part: str, kind: str | None) -> bool:
        return kind is not None and not any(getattr(settings, f"reads_{part}") for settings in seen)

    if unread("prior", prior) or unread("public", public):
        rungs = loaded.sweep.search.rungs if loaded.sweep.search else ()
        tried = [loaded.make(values, rung.set).settings for rung in rungs for values in loaded.sweep.combinations]
        seen += [settings for settings in tried if isinstance(settings, InversionSweep)]
    kinds = ", ".join(dict.fromkeys(settings.attack.kind for settings in seen if settings.attack is not None))
    if unread("prior", prior):
        expected = f"expected none, since no attack of the sweep reads it ({kinds})"
        raise InputError(f"{loaded.source}: prior: {expected}, got {prior}")
    if unread("public", public):
        why = f"a {prior} prior is already fitted" if prior else f"no attack of the sweep learns from them ({kinds})"
        raise InputError(f"{loaded.source}: public: expected none, since {why}, got {public}")


def values_text(values: dict[str, Any]) -> str:
    """The values of a cell within a message: recipe.lr=0.01, attack.loss=poincare."""
    return ", ".join(f"{shortened(key)}={shortened(str(value))}" for key, value in values.items())


def _refuse_repeats(loaded: LoadedSweep, cells: list[Cell]) -> None:
    """Two cells of the same settings would count as two measurements, and those of the same axes as one cell."""
    parts = sorted({key.partition(".")[0] for cell in cells for key in (*cell.values, *cell.other_settings)})
    for what, content in (
        ("settings", lambda cell: repr([getattr(cell.settings, part) for part in parts])),
        ("columns", lambda cell: repr({name: str(value) for name, value in cell.axes.items()})),
    ):
        seen: dict[object, Cell] = {}
        for cell in cells:
            if (other := seen.setdefault(content(cell), cell)) is not cell:
                raise InputError(
                    f"{loaded.source}: expected every combination once, got the same {what} with "
                    f"{values_text(other.values)} and with {values_text(cell.values)}"
                )


TRIES = 40  # per value that is to be seen in a valid recipe


def check_search(loaded: LoadedSweep) -> None:
    """Raise InputError (one line) where a search could not run, or part of its space could never be tried.

    Every choice, and both ends of every range, must occur in some valid recipe; every rung must suit one.
    """
    _ = loaded.cells, loaded.choices, loaded.first_recipe
    _check_rungs(loaded, loaded.search.dimensions.sample(np.random.default_rng(loaded.search.start)))


def _every_choice(loaded: LoadedSweep) -> list[Cell]:
    make, attack, space = loaded.make, loaded.sweep.combinations[0], loaded.search.dimensions

    def recipe_at(dimension: Dimension, position: float | int) -> Cell:
        where, reason, random = f"{loaded.source}: search.space.{dimension.key}", "", np.random.default_rng(0)
        drawn = (
            space.choose(lambda other: position if other is dimension else other.spread(float(random.random())))
            for _ in range(100 * TRIES)
        )
        for values in itertools.islice((values for values in drawn if dimension.key in values), TRIES):
            try:
                return make({**values, **attack})
            except InputError as error:
                value, reason = values[dimension.key], _reason(error, loaded.source)
        if not reason:
            raise InputError(f"{where}: expected a key that some configuration has, got one that none has")
        raise InputError(f"{where}: expected values that some recipe of the space can have, got {value}: {reason}")

    cells: list[Cell] = []
    for dimension in space.dimensions:
        positions: list[float | int] = [dimension.low, dimension.high]
        if dimension.above is not None:
            positions = [0.0, 1.0]
        elif dimension.values is not None:
            last = len(dimension.values) - 1
            positions = list(range(last + 1)) if dimension.choices is not None else [0, last]
        cells += [recipe_at(dimension, position) for position in positions]
    return cells


def _check_rungs(loaded: LoadedSweep, values: Values) -> None:
    """Every rung is a valid attack, and another one than the full attack and the rungs before it."""
    make, attacks, source = loaded.make, loaded.sweep.combinations, loaded.source
    full = {**values, **attacks[0]}
    seen = [(make(full).settings, "the full attack")]
    for number, rung in enumerate(loaded.search.rungs):
        where = f"{source}: search.rungs.{number}"
        for attack in attacks:
            if clash := sorted(set(rung.set) & set(attack)):
                raise InputError(f"{where}.set.{clash[0]}: expected it here or in grid, got it in both")
            try:
                make({**values, **attack}, rung.set)
            except InputError as error:
                raise InputError(f"{where}: {_reason(error, source)}") from None
        settings = make(full, rung.set).settings
        for other, name in seen:
            if settings == other:
                raise InputError(f"{where}.set: expected an attack of its own, got the same as {name}")
        seen.append((settings, f"rung {number}"))


def _stated(cell: Cell, search: Search) -> Values:
    """What a recipe, completed by the sweep file, has at the keys of the space."""
    settings = as_inversion(cell.settings)
    recipe = {"recipe": settings.recipe.model_dump(mode="json")}
    defense = settings.recipe.defense
    if defense is not None:  # without a schedule of its own it has the one that its alpha comes with
        recipe["recipe"]["defense"]["schedule"] = defense.resolved(settings.protocol)["schedule"]
    stated = {key: dotted_value(recipe, key) for key in search.space}
    return {key: value for key, (value, there) in stated.items() if there}


def _reason(error: InputError, source: str) -> str:
    """What the schema says, without the file and the values, which are named beside it."""
    text = str(error).removeprefix(source)
    head, _, tail = text.partition(": ")
    return tail if head.startswith(" with") or not head else text.removeprefix(": ")
