"""When a search stops, and what of its budget is kept for looking again at what it found."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from smoothsweep.core.bounds import Count, Positive, Seed
from smoothsweep.sweeps.base import MAX_TRIALS, Model, Several
from smoothsweep.sweeps.settings import first_repeat


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
