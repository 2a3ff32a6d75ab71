"""Whether a search can run: every part of its space is of use in some valid recipe, every rung suits it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.base import dotted_value
from smoothsweep.sweeps.expand import Cell, CellMaker, expand
from smoothsweep.sweeps.loaded import LoadedSweep, SearchRecipes, as_inversion
from smoothsweep.sweeps.search import Search
from smoothsweep.sweeps.space import Dimension, Space, Values

TRIES = 40  # per value that is to be seen in a valid recipe


def check_search(loaded: LoadedSweep) -> SearchRecipes:
    """The recipes by which the search was seen to be able to run.

    Every choice, and both ends of every range, must occur in some valid recipe; every rung must suit it. Raises
    InputError (one line) where the search could not run, or part of its space could never be tried.
    """
    expand(loaded)
    search, source, attacks = loaded.search, loaded.source, loaded.sweep.combinations
    make, choices = CellMaker(loaded), [cell.settings for cell in every_choice(loaded)]
    named = [key for key in loaded.sweep.baseline if key in search.space]
    baseline = {key: loaded.sweep.baseline[key] for key in sorted(named, key=lambda key: key.count("."))}
    stated = _stated(make({**baseline, **attacks[0]}), search) if baseline else {}
    recipe = next(_draws(search.dimensions, np.random.default_rng(search.start), None, 0, 1))
    _check_rungs(make, attacks, recipe, source)
    return SearchRecipes(choices=tuple(choices), baseline=baseline, stated=stated)


def every_choice(loaded: LoadedSweep) -> list[Cell]:
    """Valid recipes of a search in which every choice of its space, and both ends of every range, occurs.

    Raises InputError (one line) where some value can be in none.
    """
    make, attack, space = CellMaker(loaded), loaded.sweep.combinations[0], loaded.search.dimensions
    return [
        _make_recipe_at(make, attack, space, dimension, position, loaded.source)
        for dimension in space.dimensions
        for position in _positions_to_check(dimension)
    ]


def _check_rungs(make: CellMaker, attacks: list[Values], values: Values, source: str) -> None:
    """Every rung is a valid attack, and another one than the full attack and the rungs before it."""
    full = {**values, **attacks[0]}
    seen = [(make(full).settings, "the full attack")]
    for number, rung in enumerate(make.loaded.search.rungs):
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


def _positions_to_check(dimension: Dimension) -> list[float | int]:
    """Positions of what must be of use: every choice, the ends of a range."""
    if dimension.above is not None:
        return [0.0, 1.0]
    if dimension.choices is not None:
        return list(range(len(dimension.choices)))
    return [0, len(dimension.values) - 1] if dimension.values is not None else [dimension.low, dimension.high]


def _make_recipe_at(
    make: CellMaker, attack: Values, space: Space, dimension: Dimension, position: float | int, source: str
) -> Cell:
    reason = "no configuration has it"
    for values in _draws(space, np.random.default_rng(0), dimension, position, TRIES):
        try:
            return make({**values, **attack})
        except InputError as error:
            value, reason = values[dimension.key], _reason(error, source)
    raise InputError(
        f"{source}: search.space.{dimension.key}: expected values that some recipe of the space can have, got {value}: "
        f"{reason}"
    )


def _draws(
    space: Space, random: np.random.Generator, fixed: Dimension | None, position: float | int, count: int
) -> Iterator[Values]:
    """Random configurations, those with `fixed` at a position alone if it is given."""
    accepted = 0
    for _ in range(100 * count):
        values, _ = space.choose(lambda d: position if d is fixed else d.spread(float(random.random())))
        if fixed is None or fixed.key in values:
            yield values
            accepted += 1
        if accepted == count:
            return
    if not accepted and fixed is not None:
        raise InputError(f"search.space.{fixed.key}: expected a key that some configuration has, got one that none has")


def _reason(error: InputError, source: str) -> str:
    """What the schema says, without the file and the values, which are named beside it."""
    text = str(error).removeprefix(source)
    head, _, tail = text.partition(": ")
    return tail if head.startswith(" with") or not head else text.removeprefix(": ")
