"""From a sweep to its cells: the grid, value by value, each checked like a file of its own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from sweeps.load import LoadedSweep, Sweep, check, with_values


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of grid values, still without a seed.

    axes: short name -> value, in the order of the grid; settings: the whole sweep with these values in place.
    """

    axes: dict[str, Any]
    settings: Sweep
    is_baseline: bool


def expand(loaded: LoadedSweep) -> list[Cell]:
    """Every cell of the grid. InputError where a combination is not valid, naming file, key and value."""
    grid = loaded.sweep.grid
    for key, values in grid.items():
        if not values:
            raise InputError(f"{loaded.source}: grid.{key}: expected at least one value, got none")
        if key.split(".")[0] in ("grid", "name", "baseline", "seeds", "experiment", "resources", "protocol"):
            raise InputError(f"{loaded.source}: grid.{key}: expected a key that a trial depends on, got {key}")
    names = axis_names(list(grid))
    _check_baseline(loaded, grid)
    cells = []
    for combination in itertools.product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        chosen = ", ".join(f"{key}={value}" for key, value in values.items())
        source = f"{loaded.source} with {chosen}" if values else loaded.source
        settings = check(with_values(loaded.raw, values), source)
        cells.append(
            Cell(
                axes={names[key]: _axis_value(value) for key, value in values.items()},
                settings=settings,
                is_baseline=bool(loaded.sweep.baseline)
                and all(values[key] == value for key, value in loaded.sweep.baseline.items()),
            )
        )
    return cells


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


def _check_baseline(loaded: LoadedSweep, grid: dict[str, list[Any]]) -> None:
    for key, value in loaded.sweep.baseline.items():
        if key not in grid or value not in grid[key]:
            expected = f"one of {grid[key]}" if key in grid else f"a key of the grid ({', '.join(grid) or 'empty'})"
            raise InputError(f"{loaded.source}: baseline.{key}: expected {expected}, got {value!r}")


def _axis_value(value: Any) -> Any:
    """Structured values (a schedule, say) appear in tables as their compact text."""
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items())
    return str(value) if isinstance(value, list) else value
