"""What a number of the results is: its column, its unit and direction, who measures it. Loads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

AT_LEAST_0 = (0.0, float("inf"))
BALANCED = "The same as the mean over classes, each counting alike however many test images it has."
"""The description of a balanced accuracy that stands below the plain one."""
UNKEPT = "the classifier's artifact holds no accuracies by class"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: its column, and how a reader meets it.

    Attributes:
        key: The column of `results`.
        unit: "percent" metrics are fractions in [0, 1] and shown as percentages, "plain" ones are shown as they are.
        better: What the *defender* wants, None where neither direction is better.
        group: "utility" is what the owner of the model gets, "leak" what an inversion shows, "membership" how well an
            attacker tells which images were trained on, "integrity" what an attacker can make it answer, "check" tells
            whether the others can be trusted.
        bounds: What a "plain" metric can be, None if anything.
        measured_by: What of a trial, None where nothing here does.
        judge: Its key under `judges`, where a judge does.
        stage: The name of the stage that does, of a target that is trained here (these three `core.judges.columns`
            fills in for a judge's columns).
        ceiling: What the same judge reaches on real images.
        searched: Whether a search may aim at it or constrain it.
        null: Why it may be missing where all that measures it has finished, None where it never is.
        counted: What each of a rate's yes-or-no outcomes is of, where that is known; "own images" are those that
            its stage chose, the same under every seed, and the row says how many; "classes": each attacked class counts
            once.
        spread: It is a standard deviation, and no rate.
        verifies: It is the rate at which a face recogniser accepts images as a person, and no choice among the people.
        reach: What the same judge says of real images projected into the prior.
        chance: What it says of strangers, None for a choice among the people.
    """

    key: str
    label: str
    description: str
    unit: Literal["percent", "plain"] = "percent"
    better: Literal["low", "high"] | None = None
    group: Literal["utility", "leak", "membership", "integrity", "check"] = "check"
    measured_by: str | None = None
    judge: str | None = None
    stage: str | None = None
    bounds: tuple[float, float] | None = None
    ceiling: str | None = None
    searched: bool = False
    null: str | None = None
    counted: Literal["test images", "own images", "reconstructions", "classes", "trainings"] | None = None
    spread: bool = False
    verifies: bool = False
    reach: str | None = None
    chance: float | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """What the metric can be; an interval does not leave it."""
        return (0.0, 1.0) if self.unit == "percent" else self.bounds

    @property
    def is_rate(self) -> bool:
        """Whether it is a fraction of outcomes, so that its interval is that of a rate."""
        return self.unit == "percent" and not self.spread

    @property
    def span(self) -> float | None:
        """The most that two values can differ by, None where nothing bounds it; the interval of a difference does not
        leave it either."""
        return None if self.range is None else self.range[1] - self.range[0]

    @property
    def sign(self) -> int:
        """The sign of a leak: +1 where larger values leak more, -1 where they leak less (distances)."""
        return -1 if self.better == "high" else 1

    @property
    def is_leak(self) -> bool:
        """Whether recipes are compared by it as by a leak: by how much less there is than under the baseline."""
        return self.group == "leak" and self.better is not None


leak = partial(Metric, better="low", group="leak", searched=True)
"""A fraction that a leak raises."""
distance = partial(Metric, unit="plain", bounds=AT_LEAST_0, better="high", group="leak", searched=True)
"""A distance that a leak lowers."""
amount = partial(Metric, unit="plain", bounds=AT_LEAST_0)
"""A number of 0 or more."""
spread = partial(Metric, group="leak", spread=True)
"""A standard deviation of a leak."""

RATES = {"far1": 0.01, "far01": 0.001}
"""Name in a column -> false-accept rate."""
FIRST = "far1"
"""The rate that every verification has strangers for."""
STRANGERS = 1000
"""Public images that thresholds and ranks are taken from, at most."""
PROJECTED = 50
"""Private photographs that the reach of a prior is measured on, at most."""


def strangers_needed(false_accepts: float) -> int:
    """How many strangers a threshold needs: with 50 people, every 100th score of 50 strangers is still 25 scores."""
    return max(1, round(0.5 / false_accepts))
