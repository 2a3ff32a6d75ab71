"""The cells of a sweep: the grid, value by value, beside the listed ones; the columns that tell them apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS
from smoothsweep.core.text import printable, quoted, shortened
from smoothsweep.sweeps.base import MAX_KEYS, MAX_TRIALS, first_repeat
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, Sweep, check, with_values
from smoothsweep.sweeps.schema import SWEEPS, InversionSweep
from smoothsweep.sweeps.training import Recipe, trial_words

COLUMNS = frozenset(
    {
        "trial",
        "seed",
        "phase",
        "protocol",
        "status",
        "failure",
        "reasons",
        "prior",
        "attack",
        "class",
        "recipe",
        "attack_access",
        "attack_control",
        "attack_published",
        "recipe_architecture",
        "recipe_defense",
        "recipe_defense_parameters",
        "recipe_alpha",
        "recipe_schedule",
        "recipe_epochs",
        "recipe_workers",
        "recipe_poison",
        *BY_KEY,
        *TIME_COLUMNS,
    }
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


INSIDE = {"recipe": ("defense", "augmentation", "poison")}
"""Part -> what of it is checked apart from the rest of it, whatever that is, and so may be shared by itself."""


class PartsOfCells:
    """Makes the settings of cells from the raw settings of their sweep."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """raw: without what spans the cells."""
        self.schema = SWEEPS[raw.get("experiment", "inversion")]
        self._raw = raw
        self._shared: dict[str, Any] = {}  # parts as no cell changes them
        self._checked: dict[tuple[str, str], BaseModel] = {}  # what and its values -> the part
        self._names: dict[frozenset[str], set[str]] = {}
        self._unchanged: dict[tuple[str, str], BaseModel] = {}  # part, key -> what the file has there

    def settings(self, values: Mapping[str, Any]) -> Sweep:
        """The settings with these values under dotted keys, set in their order.

        Raises pydantic's ValidationError or InputError where they are not valid; what it says need not be what checking
        all at once would say.
        """
        base_settings, made = {**self._raw, **self._shared}, {}
        for part, keys in _by_part(tuple(values)):
            name = repr([(key, values[key]) for key in keys])
            if (part_settings := self._checked.get((part, name))) is None:
                part_settings = self._with_values(part, {key: values[key] for key in keys})
                made[part] = (name, part_settings)
            base_settings[part] = part_settings
        settings = self.schema.model_validate(base_settings)
        self._note(settings, base_settings, made)
        for part in (settings, *[getattr(settings, part, None) for part in made]):
            if isinstance(part, BaseModel):
                self._share_names(part)
        return settings

    def _share_names(self, part: BaseModel) -> None:
        """Hold one set of the names that were given for all parts with the same: it is most of what a part takes."""
        names = self._names.setdefault(frozenset(part.model_fields_set), part.model_fields_set)
        object.__setattr__(part, "__pydantic_fields_set__", names)

    def _with_values(self, part: str, values: Mapping[str, Any]) -> Any:
        """The raw part with values set, and in it what was checked before."""
        raw = with_values({part: self._raw[part]} if part in self._raw else {}, values)[part]
        if part not in INSIDE or not isinstance(raw, dict):
            return raw
        inside = [(key, self._inside(part, key, raw[key])) for key in INSIDE[part] if key in raw]
        return {**raw, **{key: checked for key, checked in inside if checked is not None}}

    def _inside(self, part: str, key: str, raw: Any) -> BaseModel | None:
        """What was checked of this value under a key of a part, None if it was not."""
        as_written = self._raw.get(part)
        if isinstance(as_written, dict) and raw is as_written.get(key):  # no cell has changed it
            return self._unchanged.get((part, key))
        return self._checked.get((f"{part}.{key}", repr(raw)))

    def _note(self, settings: Sweep, values: Mapping[str, Any], made: Mapping[str, tuple[str, Any]]) -> None:
        """Keep the parts that were checked just now."""
        for part, (name, raw) in made.items():
            checked = getattr(settings, part, None)
            if not isinstance(raw, dict) or not isinstance(checked, BaseModel):
                continue
            self._checked[part, name] = checked
            for key in INSIDE.get(part, ()) if isinstance(checked, Recipe) else ():
                if isinstance(raw.get(key), dict):
                    self._checked[f"{part}.{key}", repr(raw[key])] = getattr(checked, key)
                    if raw[key] is (self._raw.get(part) or {}).get(key):
                        self._unchanged[part, key] = getattr(checked, key)
        if not self._shared:
            parts = {part: getattr(settings, part, None) for part in self._raw if values[part] is self._raw[part]}
            self._shared = {part: checked for part, checked in parts.items() if isinstance(checked, BaseModel)}


@lru_cache(maxsize=64)
def _by_part(keys: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The keys of each part, in their order."""
    parts = dict.fromkeys(key.partition(".")[0] for key in keys)
    return tuple((part, tuple(key for key in keys if key.partition(".")[0] == part)) for part in parts)


NOT_OF_A_TRIAL = (
    "grid",
    "cells",
    "name",
    "baseline",
    "seeds",
    "experiment",
    "resources",
    "protocol",
    "paper",
    "search",
    "budget",
    "reaudit",
    "min_test_acc",
    "accuracy_margin",
    "tracking",
)
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
    _check_count(loaded)
    _check_keys(loaded)
    _check_baseline(loaded)
    make = CellMaker(loaded)
    chosen = loaded.sweep.cells or [{}]
    cells = [make({**cell, **combination}) for cell in chosen for combination in loaded.sweep.combinations]
    _refuse_repeats(loaded, cells)
    _refuse_controls_alone(loaded, cells)
    _refuse_unread(loaded, make, cells)
    return cells


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


def _refuse_unread(loaded: LoadedSweep, make: CellMaker, cells: list[Cell]) -> None:
    """Raise InputError for a prior, or public images, that no attack of the sweep reads, be it in a rung of a search.

    What one attack of a portfolio leaves alone another may need, so that this is said of a sweep, not of a cell.
    """
    seen = [cell.settings for cell in cells if isinstance(cell.settings, InversionSweep)]
    prior = next((settings.prior.kind for settings in seen if settings.prior), None)
    public = next((settings.public.kind for settings in seen if settings.public), None)
    if (prior is None or any(settings.reads_prior for settings in seen)) and (
        public is None or any(settings.reads_public for settings in seen)
    ):
        return
    rungs = loaded.sweep.search.rungs if loaded.sweep.search else ()
    tried = [make(values, rung.set).settings for rung in rungs for values in loaded.sweep.combinations]
    seen += [settings for settings in tried if isinstance(settings, InversionSweep)]
    kinds = ", ".join(dict.fromkeys(settings.attack.kind for settings in seen if settings.attack is not None))
    if prior is not None and not any(settings.reads_prior for settings in seen):
        expected = f"expected none, since no attack of the sweep reads it ({kinds})"
        raise InputError(f"{loaded.source}: prior: {expected}, got {prior}")
    if public is not None and not any(settings.reads_public for settings in seen):
        why = f"a {prior} prior is already fitted" if prior else f"no attack of the sweep learns from them ({kinds})"
        raise InputError(f"{loaded.source}: public: expected none, since {why}, got {public}")


class CellMaker:
    """Makes the cells of one sweep: what they share is looked up once."""

    def __init__(self, loaded: LoadedSweep) -> None:
        self.loaded = loaded
        self.names = axis_names(axis_keys(loaded))
        self.keys = {name: key for key, name in self.names.items()}
        # No cell needs a copy of what spans them all: with it, ten thousand cells would cost their square.
        self.raw = {key: value for key, value in loaded.raw.items() if key not in SPANNING}
        search = loaded.sweep.search  # what its space holds and the baseline does not is null there
        self.parts = PartsOfCells(self.raw)
        self.baseline = {**dict.fromkeys(search.space if search else ()), **loaded.sweep.baseline}

    def __call__(self, values: dict[str, Any], beside: dict[str, Any] | None = None) -> Cell:
        """The cell of these values, and of further settings that are no axes.

        A listed key after one that it lies in (recipe.defense.alpha after recipe.defense) changes that value. Raises
        InputError where the settings are not valid, naming file, keys and values.
        """
        everything = {**values, **(beside or {})}
        return Cell(
            axes={name: axis_value(values.get(key)) for key, name in self.names.items()},
            settings=self._settings(everything),
            is_baseline=bool(self.loaded.sweep.baseline)
            and all(values.get(key) == value for key, value in self.baseline.items()),
            values=values,
            other_settings=beside or {},
            keys=self.keys,
        )

    def _settings(self, values: dict[str, Any]) -> Sweep:
        """The cell's settings; where they are not valid, what is wrong is said of all of them, as of a file."""
        try:
            return self.parts.settings(values)
        except ValueError:
            source = f"{self.loaded.source} with {values_text(values)}" if values else self.loaded.source
            return check(with_values(self.raw, values), source)


def values_text(values: dict[str, Any]) -> str:
    """The values of a cell within a message: recipe.lr=0.01, attack.loss=poincare."""
    return ", ".join(f"{shortened(key)}={shortened(str(value))}" for key, value in values.items())


def _check_keys(loaded: LoadedSweep) -> None:
    sweep = loaded.sweep
    for key, values in sweep.grid.items():
        if not values:
            raise InputError(f"{loaded.source}: grid.{key}: expected at least one value, got none")
        if twice := first_repeat(values):
            got = " and ".join(map(quoted, twice))
            raise InputError(f"{loaded.source}: grid.{key}: expected every value once, got {got}")
    for number, cell in enumerate(sweep.cells):
        if set(cell) != set(sweep.cells[0]) or not cell:
            expected = ", ".join(sweep.cells[0]) or "at least one key"
            raise InputError(f"{loaded.source}: cells.{number}: expected the keys {expected}, got {', '.join(cell)}")
        if twice := sorted(set(cell) & set(sweep.grid)):
            raise InputError(f"{loaded.source}: cells.{number}.{twice[0]}: expected it here or in grid, got it in both")
    for place, keys in (("grid", sweep.grid), ("cells", sweep.cells[0] if sweep.cells else ())):
        for key in keys:
            if key.split(".")[0] in NOT_OF_A_TRIAL:
                raise InputError(f"{loaded.source}: {place}.{key}: expected a key that a trial depends on, got {key}")
    _check_order(loaded)
    if sweep.search:
        for key in sweep.grid:
            if key in sweep.search.space:
                raise InputError(f"{loaded.source}: grid.{key}: expected it here or in search.space, got it in both")
            if key.split(".")[0] not in OF_THE_ATTACKER:
                raise InputError(
                    f"{loaded.source}: grid.{key}: expected keys of the attacker beside search, which proposes the "
                    f"recipes, got {key}"
                )


def _check_order(loaded: LoadedSweep) -> None:
    """Refuse a key that a later one, which it lies in, would set again as a whole."""
    cells = loaded.sweep.cells
    keys = [*(cells[0] if cells else ()), *loaded.sweep.grid]
    for place, key in enumerate(keys):
        if holder := next((later for later in keys[place + 1 :] if key.startswith(f"{later}.")), None):
            raise InputError(f"{loaded.source}: {key}: expected it after {holder}, which sets it again, got it before")


def _check_count(loaded: LoadedSweep) -> None:
    sweep = loaded.sweep
    for place, keys in (("grid", sweep.grid), *((f"cells.{number}", cell) for number, cell in enumerate(sweep.cells))):
        if len(keys) > MAX_KEYS:
            raise InputError(f"{loaded.source}: {place}: expected at most {MAX_KEYS} keys, got {len(keys)}")
    trials = len(sweep.every_seed) * max(1, len(sweep.cells)) * math.prod(map(len, sweep.grid.values()))
    if trials > MAX_TRIALS:
        raise InputError(f"{loaded.source}: grid: expected at most {MAX_TRIALS} trials, got {trials}")


def _refuse_repeats(loaded: LoadedSweep, cells: list[Cell]) -> None:
    """Two cells of the same settings would count as two measurements, and those of the same axes as one cell."""
    for what, content in (("settings", _SettingsKeys(cells)), ("columns", _columns_of)):
        seen: dict[object, Cell] = {}
        for cell in cells:
            if (other := seen.setdefault(content(cell), cell)) is not cell:
                raise InputError(
                    f"{loaded.source}: expected every combination once, got the same {what} with "
                    f"{values_text(other.values)} and with {values_text(cell.values)}"
                )


class _SettingsKeys:
    """What all settings of a cell are, as a key: each part is written out once, however many cells share it."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        """cells: of one sweep, so that they have alike whatever none of them sets."""
        self._known: dict[int, bytes] = {}  # by object: the cells keep them alive
        self._parts = sorted({key.partition(".")[0] for cell in cells for key in (*cell.values, *cell.other_settings)})

    def __call__(self, cell: Cell) -> tuple[object, ...]:
        return tuple([self._of(getattr(cell.settings, part)) for part in self._parts])

    def _of(self, value: Any) -> object:
        if (digest := self._known.get(id(value))) is not None:
            return digest
        if not isinstance(value, BaseModel):
            return value if isinstance(value, str | int | tuple | None) else repr(value)
        digest = self._known[id(value)] = sha256(value.model_dump_json().encode()).digest()
        return digest


def _columns_of(cell: Cell) -> str:
    return repr({name: str(value) for name, value in cell.axes.items()})


def _check_baseline(loaded: LoadedSweep) -> None:
    tried = dict(loaded.sweep.grid)
    for key in loaded.sweep.cells[0] if loaded.sweep.cells else ():
        tried[key] = [cell[key] for cell in loaded.sweep.cells]
    search = loaded.sweep.search
    for key, value in loaded.sweep.baseline.items():
        if search and key in search.space:
            continue  # tried before anything is searched, whether or not the space holds it
        if key not in tried or value not in tried[key]:
            keys = ", ".join([*(search.space if search else ()), *tried]) or "empty"
            expected = f"one of {tried[key]}" if key in tried else f"a key of the grid ({keys})"
            raise InputError(f"{loaded.source}: baseline.{key}: expected {expected}, got {value!r}")
