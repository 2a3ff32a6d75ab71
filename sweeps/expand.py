"""From a sweep to its cells: the grid, value by value, beside the listed ones, each checked like a file of its own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from sweeps.load import LoadedSweep, Sweep, check, with_values

NOT_OF_A_TRIAL = ("grid", "cells", "name", "baseline", "seeds", "experiment", "resources", "protocol", "paper")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of grid values, still without a seed.

    axes: short name -> value, in the order of the grid; settings: the whole sweep with these values in place.
    """

    axes: dict[str, Any]
    settings: Sweep
    is_baseline: bool


def expand(loaded: LoadedSweep) -> list[Cell]:
    """Every listed cell under every combination of the grid.

    InputError where a combination is not valid, naming file, key and value.
    """
    grid, listed = loaded.sweep.grid, loaded.sweep.cells or [{}]
    _check_keys(loaded)
    names = axis_names(axis_keys(loaded))
    _check_baseline(loaded)
    # No cell needs a copy of what spans them all: with it, ten thousand cells would cost their square.
    raw = {key: value for key, value in loaded.raw.items() if key not in ("grid", "cells")}
    cells = []
    for chosen, combination in itertools.product(listed, itertools.product(*grid.values())):
        values = {**chosen, **dict(zip(grid, combination, strict=True))}
        said = ", ".join(f"{key}={value}" for key, value in values.items())
        source = f"{loaded.source} with {said}" if values else loaded.source
        settings = check(with_values(raw, values), source)
        cells.append(
            Cell(
                axes={name: axis_value(values[key]) for key, name in names.items()},
                settings=settings,
                is_baseline=bool(loaded.sweep.baseline)
                and all(values[key] == value for key, value in loaded.sweep.baseline.items()),
            )
        )
    return cells


def axis_keys(loaded: LoadedSweep) -> list[str]:
    """The dotted keys that tell cells apart, listed ones first.

    A listed key that follows from those before it (the number of steps from the data set, say) is no axis of its own.
    """
    keys: list[str] = []
    listed = loaded.sweep.cells
    for key in listed[0] if listed else ():
        seen: dict[str, Any] = {}
        known = [repr([cell[k] for k in keys]) for cell in listed]
        if any(seen.setdefault(k, cell[key]) != cell[key] for k, cell in zip(known, listed, strict=True)):
            keys.append(key)
    return [*keys, *loaded.sweep.grid]


def axis_names(keys: list[str]) -> dict[str, str]:
    """Dotted key -> the shortest column name that is unambiguous: recipe.defense.alpha -> alpha."""
    names = {}
    for key in keys:
        parts = key.split(".")
        for length in range(1, len(parts) + 1):
            name = "_".join(parts[-length:])
            if all("_".join(other.split(".")[-length:]) != name for other in keys if other != key):
                break
        names[key] = f"attack_{name}" if parts[0] == "attack" and name == "loss" else name
    return names


def _check_keys(loaded: LoadedSweep) -> None:
    sweep = loaded.sweep
    for key, values in sweep.grid.items():
        if not values:
            raise InputError(f"{loaded.source}: grid.{key}: expected at least one value, got none")
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


def _check_baseline(loaded: LoadedSweep) -> None:
    tried = dict(loaded.sweep.grid)
    for key in loaded.sweep.cells[0] if loaded.sweep.cells else ():
        tried[key] = [cell[key] for cell in loaded.sweep.cells]
    for key, value in loaded.sweep.baseline.items():
        if key not in tried or value not in tried[key]:
            expected = f"one of {tried[key]}" if key in tried else f"a key of the grid ({', '.join(tried) or 'empty'})"
            raise InputError(f"{loaded.source}: baseline.{key}: expected {expected}, got {value!r}")


def axis_value(value: Any) -> Any:
    """Structured values (a schedule, say) appear in tables as their compact text."""
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items())
    return str(value) if isinstance(value, list) else value
