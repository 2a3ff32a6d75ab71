"""A search space: dimensions with their conditions. Enumerated, counted, sampled, or suggested by an Optuna trial.

A search works with the positions of its dimensions (`sweeps.dimension`), so that what it proposes lies in the space by
construction.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smoothsweep.sweeps.dimension import Dimension, Positions, Suggests, Values, same_value

MOST_COMBINATIONS = 100_000  # of the values of conditions that are looked through for one that can hold


@dataclass(frozen=True, kw_only=True)
class Space:
    """Dimensions, each after those it depends on. A key inside another dimension's values comes after it too."""

    dimensions: tuple[Dimension, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(dimension.key for dimension in self.dimensions)

    @cached_property
    def count(self) -> int | None:
        """How many configurations there are; None for infinitely many."""
        if any(dimension.values is None for dimension in self.dimensions):
            return None
        return sum(1 for _ in self.enumerate())

    def is_larger_than(self, most: int) -> bool:
        """Whether a finite space has more configurations; no more are looked at than it takes to know."""
        if math.prod(len(dimension.values or ()) for dimension in self.dimensions) <= most:
            return False
        return sum(1 for _ in itertools.islice(self.enumerate(), most + 1)) > most

    def enumerate(self) -> Iterator[Values]:
        """Every configuration of a finite space, the last dimension fastest."""
        yield from self._extend({}, 0)

    def _extend(self, values: Values, depth: int) -> Iterator[Values]:
        if depth == len(self.dimensions):
            yield copy.deepcopy(values)
            return
        dimension = self.dimensions[depth]
        if not dimension.exists(values):
            yield from self._extend(values, depth + 1)
            return
        if dimension.values is None:
            raise ValueError(f"{dimension.key}: expected finitely many values")
        floor = values.get(dimension.above, -math.inf) if dimension.above else None
        for value in dimension.values:
            if floor is None or value > floor:
                yield from self._extend({**values, dimension.key: value}, depth + 1)

    def choose(self, position_of: Callable[[Dimension], float | int]) -> tuple[Values, Positions]:
        """One configuration, and its positions, by asking for the position of every dimension that exists in it."""
        values: Values = {}
        positions: Positions = {}
        for dimension in self.dimensions:
            if dimension.exists(values):
                positions[dimension.key] = position_of(dimension)
                values[dimension.key] = dimension.at(positions[dimension.key], values)
        return values, positions

    def sample(self, random: np.random.Generator) -> Values:
        """A random configuration."""
        return self.choose(lambda dimension: dimension.spread(float(random.random())))[0]

    def suggest(self, trial: Suggests) -> Values:
        """The configuration that an Optuna trial suggests."""
        return self.choose(lambda dimension: dimension.suggest(trial))[0]

    def positions(self, values: Values) -> Positions | None:
        """Where a configuration lies, None if it is not in the space."""
        positions: Positions = {}
        for dimension in self.dimensions:
            if dimension.exists(values) != (dimension.key in values):
                return None
            if dimension.key in values:
                position = dimension.position(values[dimension.key], values)
                if position is None:
                    return None
                positions[dimension.key] = position
        return positions if set(positions) == set(values) else None


def make_space(dimensions: Sequence[Dimension]) -> Space:
    """A space of consistent dimensions, in an order in which each comes after what it depends on.

    Raises ValueError (one line, beginning with the key) for no dimensions, conditions on what is no dimension or on
    values it never has, circles, a dimension that never exists, bounds that another leaves no room for.
    """
    if not dimensions:
        raise ValueError("expected at least one key with what it may be, got none")
    by_key = {dimension.key: dimension for dimension in dimensions}
    for dimension in dimensions:
        _check_references(dimension, by_key)
    space = Space(dimensions=tuple(_in_order(by_key)))
    for dimension in space.dimensions:
        _check_existence(dimension, by_key)
        _check_room(dimension, by_key)
    return space


def parent_dimension(key: str, by_key: Mapping[str, Dimension]) -> str | None:
    """The dimension whose values hold this key, such as recipe.defense for recipe.defense.beta; None if there is none.

    The nearest one where several do.
    """
    parts = key.split(".")
    above = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((other for other in above if other in by_key), None)


def _check_references(dimension: Dimension, by_key: Mapping[str, Dimension]) -> None:
    key = dimension.key
    for other, allowed in dimension.when.items():
        if other == key or other not in by_key:
            raise ValueError(f"{key}.when: expected keys of other dimensions of the space, got {other}")
        values = by_key[other].values
        if values is None or by_key[other].above is not None:
            raise ValueError(f"{key}.when.{other}: expected a dimension of choices or steps, got a range of numbers")
        if not allowed:
            raise ValueError(f"{key}.when.{other}: expected at least one value, got none")
        for value in allowed:
            if not any(same_value(value, choice) for choice in values):
                known_text = ", ".join(map(str, values[:12]))
                raise ValueError(f"{key}.when.{other}: expected values of that dimension ({known_text}), got {value}")
    if dimension.above is None:
        return
    if dimension.above == key or dimension.above not in by_key:
        raise ValueError(f"{key}.above: expected the key of another dimension of the space, got {dimension.above}")
    for member in (dimension, by_key[dimension.above]):
        if member.choices is not None:
            raise ValueError(f"{key}.above: expected ranges of numbers on both sides, got choices for {member.key}")


def _in_order(by_key: Mapping[str, Dimension]) -> list[Dimension]:
    """Depth first; refuses circles."""
    ordered: dict[str, Dimension] = {}
    open_keys: list[str] = []

    def visit(key: str) -> None:
        if key in ordered:
            return
        if key in open_keys:
            circle = " -> ".join([*open_keys[open_keys.index(key) :], key])
            raise ValueError(f"{key}: expected conditions that do not go in a circle, got {circle}")
        open_keys.append(key)
        dimension = by_key[key]
        holder = parent_dimension(key, by_key)
        for other in (*dimension.when, *filter(None, (dimension.above, holder))):
            visit(other)
        open_keys.pop()
        ordered[key] = dimension

    for key in by_key:
        visit(key)
    return list(ordered.values())


def _check_existence(dimension: Dimension, by_key: Mapping[str, Dimension]) -> None:
    """Refuse a dimension that no configuration has: its conditions, or those of their keys, exclude one another."""
    chain = [by_key[key] for key in _conditions(dimension.key, by_key)]
    if len(chain) < 2:
        return  # values of one dimension that it does have
    required = [_asked(link, [dimension, *chain]) for link in chain]
    for combination in itertools.islice(itertools.product(*required), MOST_COMBINATIONS):
        values = dict(zip((link.key for link in chain), combination, strict=True))
        if dimension.exists(values) and all(link.exists(values) for link in chain):
            return
    raise ValueError(f"{dimension.key}.when: expected conditions that can hold together, got none that do")


def _asked(dimension: Dimension, others: Sequence[Dimension]) -> list[Any]:
    """The values of a dimension that some condition asks for: among the others no condition can tell a difference."""
    required = [value for other in others for value in other.when.get(dimension.key, ())]
    return [value for value in dimension.values or () if any(same_value(value, other) for other in required)]


def _conditions(key: str, by_key: Mapping[str, Dimension]) -> list[str]:
    """The dimensions that decide whether this one exists, those they depend on included."""
    conditions: list[str] = []
    waiting = list(by_key[key].when)
    while waiting:
        other = waiting.pop()
        if other not in conditions:
            conditions.append(other)
            waiting.extend(by_key[other].when)
    return conditions


def _check_room(dimension: Dimension, by_key: Mapping[str, Dimension]) -> None:
    if dimension.above is None:
        return
    other = by_key[dimension.above]
    highest, top = (member.values[-1] if member.values else member.high for member in (other, dimension))
    if highest >= top:
        raise ValueError(
            f"{dimension.key}.above: expected room above {other.key}, which reaches {highest:g}, got at most {top:g}"
        )


def check_searched_key(key: str) -> None:
    """Raise ValueError for a key that is not the recipe's."""
    part = key.split(".")[0]
    if part in ("attack", "prior", "public", "classes", "judges"):
        raise ValueError(
            f"{key}: expected keys of the recipe, got one of the attacker, who does not search here (grid takes it)"
        )
    if part != "recipe":
        raise ValueError(f"{key}: expected keys of the recipe, got {key}")


def check_inside(dimension: Dimension, by_key: Mapping[str, Dimension]) -> None:
    """Raise ValueError where a key lies inside another dimension's values, unless these are mappings without it."""
    holder = parent_dimension(dimension.key, by_key)
    if holder is None:
        return
    path = dimension.key.removeprefix(f"{holder}.").split(".")
    for value in by_key[holder].values or ():
        if holder in dimension.when and value not in dimension.when[holder]:
            continue
        node: Any = value
        for depth, part in enumerate(path):
            if not isinstance(node, dict):
                raise ValueError(f"{dimension.key}: expected {holder} to hold keys wherever this exists, got {value}")
            if part not in node:
                break
            if depth == len(path) - 1:
                raise ValueError(f"{dimension.key}: expected it here or among the choices of {holder}, got both")
            node = node[part]
