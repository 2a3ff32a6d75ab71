"""What bounds a sweep: the budget, the second audit, and seeds that are added where they are needed (looks)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from smoothsweep.core.bounds import LARGEST, Count, OpenFraction, Positive, Seed
from smoothsweep.core.metrics.looks import Looks, Spend
from smoothsweep.sweeps.base import MAX_TRIALS, Model, Several, first_repeat


class Budget(Model):
    """Over the life of the sweep, running work included. Either or both."""

    device_hours: Positive | None = None  # hours of GPUs, or of CPUs where there are none, summed over all tasks
    minutes: Positive | None = None  # minutes on the clock while the sweep runs

    @model_validator(mode="after")
    def _limits_something(self) -> Budget:
        if self.device_hours is None and self.minutes is None:
            raise ValueError("expected device_hours or minutes, got neither")
        return self


class Reaudit(Model):
    """The recipes on the accuracy-leak frontier once more: fresh seeds, the full attack.

    Attributes:
        seeds: Training seeds that the sweep itself does not use.
        recipes: How many recipes of the frontier at most, its ends first.
        share: Fraction of the budget that a search leaves to it.
    """

    seeds: Annotated[Several[Seed], Field(min_length=1)]
    recipes: Annotated[Count, Field(le=MAX_TRIALS)] = 5
    share: Annotated[float, Field(ge=0, lt=1)] = 0.2

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if twice := first_repeat(seeds):
            raise ValueError(f"expected each once, got {twice[0]} twice")
        return seeds


MOST_LOOKS, MOST_SEEDS = 20, 1000


class SeedLooks(Model):
    """A group-sequential design (`core.metrics.looks`).

    Every recipe is compared with the baseline at the first look, those still undecided again at the next, with more
    seeds.

    Attributes:
        looks: How many seeds each look has, increasing, two or more at the first.
        first: The first seed; the others follow it.
        alpha: The error probability of all looks together.
        spend: How the error probability is spent over the looks.
        smallest: The smallest difference of interest, in the unit of the leak (0.05: five percentage points); a recipe
            whose interval lies within it, either way, gets no more seeds.
    """

    looks: Annotated[Several[Annotated[int, Field(ge=1, le=MOST_SEEDS)]], Field(min_length=1, max_length=MOST_LOOKS)]
    first: Annotated[Seed, Field(le=LARGEST - MOST_SEEDS)] = 1
    alpha: OpenFraction = 0.05
    spend: Spend = "pocock"
    smallest: Positive = 0.05

    @cached_property
    def design(self) -> Looks:
        """The looks with their errors. Raises InputError where they are none."""
        return Looks(seeds=self.looks, alpha=self.alpha, spend=self.spend)

    def of_look(self, number: int) -> tuple[int, ...]:
        """All seeds that a recipe has at a look, counted from 0."""
        return tuple(range(self.first, self.first + self.looks[number]))

    @property
    def every(self) -> tuple[int, ...]:
        """The seeds of the last look."""
        return self.of_look(-1)

    @model_validator(mode="after")
    def _is_a_design(self) -> SeedLooks:
        self.design  # noqa: B018 - refuses what is none
        return self


def list_or_looks(raw: Any) -> str:
    """Which of the two ways to state seeds this is."""
    return "of_looks" if isinstance(raw, dict | SeedLooks) else "a_list"
