"""A judge is an instrument with known error: the leak corrected for what it misses and for what it accepts wrongly.

Of reconstructions that are the person a judge recognises a share (its sensitivity: known from real test images), of
those that are not it accepts a share too (its false-positive rate: known from controls, which know nothing of the
model). Rogan and Gladen (1978, Am. J. Epidemiol. 107) solve what is observed for what is true:

    true = (observed - false positives) / (sensitivity - false positives)

The interval carries all three uncertainties (the delta method, as Lang and Reiczigel, 2014, Prev. Vet. Med. 113, with
one success and one failure added to the two rates, so that a rate of 0 or 1 from a few images is not taken for sure).
A real photograph is easier than a reconstruction of the same face, so sensitivity is an upper bound, and the corrected
leak a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from smoothsweep.core.errors import InputError

LEAST_POWER = 0.1
"""A judge whose sensitivity exceeds its false positives by less tells nothing that could be corrected."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share of `trials` images; both at least 0, trials at least 1."""

    share: float
    trials: int

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 <= self.share <= 1:
            raise InputError(f"rate: expected a share in [0, 1] of at least 1 image, got {self.share} of {self.trials}")

    @property
    def variance(self) -> float:
        """Variance of the share, with a success and a failure added."""
        near = (self.share * self.trials + 1) / (self.trials + 2)
        return near * (1 - near) / (self.trials + 2)


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A leak as it would be by a judge without error, with its interval, in [0, 1]; low and high None where the
    observed leak had none."""

    value: float
    low: float | None
    high: float | None


def corrected_leak(
    observed: float,
    interval: tuple[float, float] | None,
    *,
    sensitivity: Rate,
    false_positives: Rate,
    level: float = 0.95,
) -> Corrected | None:
    """The leak without the judge's error; None where the judge tells people hardly better than chance (`LEAST_POWER`).

    observed: share in [0, 1] of reconstructions that the judge accepts; interval: of it, at the same level, None
    where there is none. Raises InputError for a share or a level out of range.
    """
    if not 0 <= observed <= 1 or not 0 < level < 1:
        raise InputError(f"leak: expected a share in [0, 1] and a level in (0, 1), got {observed} and {level}")
    power = sensitivity.share - false_positives.share
    if power < LEAST_POWER:
        return None
    value = float(np.clip((observed - false_positives.share) / power, 0, 1))
    if interval is None:
        return Corrected(value=value, low=None, high=None)
    z = float(stats.norm.ppf((1 + level) / 2))
    around = value**2 * sensitivity.variance + (1 - value) ** 2 * false_positives.variance
    ends = []
    for side, end in ((-1, interval[0]), (1, interval[1])):
        half = np.sqrt((observed - end) ** 2 + z**2 * around) / power
        ends.append(float(np.clip(value + side * half, 0, 1)))
    return Corrected(value=value, low=ends[0], high=ends[1])
