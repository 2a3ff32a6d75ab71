"""A search space: dimensions with their conditions, enumerated, counted, sampled.

A dimension (one key: what it may be, when it exists) is reduced to a position, which is what a search works with: the
index of a value where there are finitely many, a share in [0, 1] of what another dimension leaves (`above`), else the
number itself. So one name always stands for one distribution, whatever else was chosen, and what is proposed lies in
the space by construction.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le, MaxLen

from smoothsweep.core.bounds import Positive

MAX_CHOICES = 200  # of one key: each of them must occur in some valid recipe, which takes a look
Bounded = Annotated[float, Ge(-1e300), Le(1e300)]  # so that differences and logarithms of them are finite
DIGITS = 6  # significant digits of numbers without a step, so that recipes and their stages repeat

Values = dict[str, Any]  # dotted key -> value; keys whose condition does not hold are left out
Positions = dict[str, float | int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dimension:
    """One key of the sweep file and what it may be.

    Attributes:
        choices: List of values.
        low: Smallest number.
        high: Largest number.
        step: Distance from one number to the next, from low on; without one, any number.
        log: Spread evenly in the logarithm.
        integer: Whole numbers.
        when: Other key of the space -> values of it; only with these does this key exist.
        above: Another key of the space; values at or below that one's are left out.
    """

    key: str
    choices: Annotated[tuple[Any, ...], MaxLen(MAX_CHOICES)] | None = None
    low: Bounded = field(default_factory=float)
    high: Bounded = field(default_factory=float)
    step: Positive | None = None
    log: bool = False
    integer: bool = False
    when: Mapping[str, Any] = field(default_factory=dict)
    above: str | None = None

    @cached_property
    def values(self) -> tuple[Any, ...] | None:
        """All values in order, or None where they are a continuum."""
        if self.choices is not None:
            return self.choices
        if self.step is None:
            return (self.low,) if self.low == self.high else None
        first, step = Decimal(repr(self.low)), Decimal(repr(self.step))
        count = int((Decimal(repr(self.high)) - first) / step) + 1
        numbers = [first + index * step for index in range(count)]
        return tuple(int(number) if self.integer else float(number) for number in numbers)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether neighbours in `values` are alike: numbers in order, not names."""
        numbers = self.choices is None or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.choices
        )
        return numbers and (self.choices is None or list(self.choices) == sorted(self.choices))

    def exists(self, values: Values) -> bool:
        """Whether the dimension applies to a configuration of those before it."""
        return all(
            other in values and any(same_value(values[other], value) for value in allowed)
            for other, allowed in self.when.items()
        )

    def at(self, position: float | int, values: Values) -> Any:
        """The value at a position, given those of the dimensions before it."""
        if self.above is None:
            if self.values is not None:
                return copy.deepcopy(self.values[int(position)])
            return self._rounded(float(position), self.low, -math.inf)
        floor = values.get(self.above, -math.inf)
        if self.values is not None:
            room = [value for value in self.values if value > floor]
            return room[min(int(position * len(room)), len(room) - 1)]
        return self._within(float(position), max(self.low, floor), floor)

    def position(self, value: Any, values: Values) -> float | int | None:
        """Where `at` gives this value, None if nowhere."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.above is None:
            if self.values is None:
                return float(value) if is_number and self.low <= value <= self.high else None
            return next((index for index, choice in enumerate(self.values) if same_value(choice, value)), None)
        if not is_number:
            return None
        floor = values.get(self.above, -math.inf)
        if self.values is not None:
            room = [choice for choice in self.values if choice > floor]
            return (room.index(value) + 0.5) / len(room) if value in room else None
        low = max(self.low, floor)
        if not (low <= value <= self.high):
            return None
        start, end, at = (math.log(x) if self.log else x for x in (low, self.high, value))
        return (at - start) / (end - start) if end > start else 0.0

    def spread(self, share: float) -> float | int:
        """The position at a share in [0, 1) of the dimension: even over its values or its (logarithmic) range."""
        if self.above is not None:
            return share
        if self.values is not None:
            return min(int(share * len(self.values)), len(self.values) - 1)
        if self.log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)

    def _within(self, share: float, low: float, floor: float) -> float:
        """The number at a share of [low, high], above the floor whatever rounding does."""
        start, end = (math.log(low), math.log(self.high)) if self.log else (low, self.high)
        number = start + share * (end - start)
        return self._rounded(math.exp(number) if self.log else number, low, floor)

    def _rounded(self, number: float, low: float, floor: float) -> float:
        rounded = min(max(float(f"{number:.{DIGITS}g}"), low), self.high)
        return rounded if rounded > floor else self.high


def same_value(first: Any, other: Any) -> bool:
    """Equal and of one kind: true is not 1."""
    return isinstance(first, bool) == isinstance(other, bool) and first == other


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

    def choose(self, position_of: Callable[[Dimension], float | int]) -> Values:
        """One configuration, by asking for the position of every dimension that exists in it."""
        values: Values = {}
        for dimension in self.dimensions:
            if dimension.exists(values):
                values[dimension.key] = dimension.at(position_of(dimension), values)
        return values

    def sample(self, random: np.random.Generator) -> Values:
        return self.choose(lambda dimension: dimension.spread(float(random.random())))


def make_space(dimensions: Sequence[Dimension]) -> Space:
    """A space of consistent dimensions, in an order in which each comes after what it depends on.

    Raises ValueError (one line, beginning with the key) for no dimensions, conditions on what is no dimension or on
    values it never has, circles, bounds that another leaves no room for.
    """
    if not dimensions:
        raise ValueError("expected at least one key with what it may be, got none")
    by_key = {dimension.key: dimension for dimension in dimensions}
    for dimension in dimensions:
        _check_references(dimension, by_key)
    space = Space(dimensions=tuple(_in_order(by_key)))
    for dimension in space.dimensions:
        if dimension.above is not None:
            other = by_key[dimension.above]
            highest, top = (member.values[-1] if member.values else member.high for member in (other, dimension))
            if highest >= top:
                room = f"expected room above {other.key}, which reaches {highest:g}"
                raise ValueError(f"{dimension.key}.above: {room}, got at most {top:g}")
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
