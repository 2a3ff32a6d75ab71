"""One dimension of a search space: what a key may be, when it exists, and where its values lie.

A dimension is reduced to a position, which is what a search works with: the index of a value where there are finitely
many, a share in [0, 1] of what another dimension leaves (`above`), else the number itself. So one name always stands
for one distribution, whatever else was chosen.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol

DIGITS = 6  # significant digits of numbers without a step, so that recipes and their stages repeat

Values = dict[str, Any]  # dotted key -> value; keys whose condition does not hold are left out
Positions = dict[str, float | int]


class Suggests(Protocol):
    """What of an Optuna trial is used."""

    def suggest_categorical(self, name: str, choices: Sequence[int]) -> int: ...
    def suggest_int(self, name: str, low: int, high: int) -> int: ...
    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Dimension:
    """One key of the sweep file and what it may be.

    Attributes:
        choices: The values, or None for numbers in [low, high].
        step: The distance of the values, counted from low; None is any number of DIGITS significant digits.
        integer: Whole numbers (step then defaults to 1).
        log: Even in the logarithm.
        when: Other dimension -> the values of it with which this one exists; all must hold.
        above: Another dimension whose value this one must exceed.
    """

    key: str
    choices: tuple[Any, ...] | None = None
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    integer: bool = False
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
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

    def suggest(self, trial: Suggests) -> float | int:
        """A position by a search."""
        if self.above is not None:
            return trial.suggest_float(self.key, 0.0, 1.0)
        if self.values is None:
            return trial.suggest_float(self.key, self.low, self.high, log=self.log)
        if self.is_ordered:
            return trial.suggest_int(self.key, 0, len(self.values) - 1)
        return trial.suggest_categorical(self.key, range(len(self.values)))

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
