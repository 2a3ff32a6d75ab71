"""How well attacks that see scores tell a person's training images from the same person's other images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smoothsweep.core.membership.measuring import RATES, Measured
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, title_of
from smoothsweep.core.metrics.intervals import crossed_mean_interval
from smoothsweep.core.metrics.membership import tpr_at

SEES = "scores"


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """How well one attack tells training images from others.

    Attributes:
        attack: Its name, as results have it.
        auc: AUC within persons; low and high are its 95 % interval over persons (NaN for one).
    """

    attack: str
    auc: float
    low: float
    high: float

    @property
    def title(self) -> str:
        """What a page calls it."""
        return title_of(self.attack)

    @property
    def words(self) -> str:
        """`0.74 [0.70, 0.78]`; without interval for one person."""
        return f"{self.auc:.2f}" + ("" if self.low != self.low else f" [{self.low:.2f}, {self.high:.2f}]")


@dataclass(frozen=True, kw_only=True)
class WithinPersons(Attacked):
    """One attack within persons: its AUC is the mean over them of the AUC among the images of each.

    Attributes:
        found: Name of a false positive rate -> fraction of training images found at it; None where so few other images
            do not show that rate.
    """

    found: Mapping[str, float | None]

    @property
    def has_shadows(self) -> bool:
        """Whether it compares the model with shadow models; else it is a threshold."""
        return "shadow_phi" in MEMBERSHIP_ATTACKS[self.attack].needs


def measure_within_persons(measured: Measured) -> tuple[tuple[WithinPersons, ...], int]:
    """Attacks that see scores, the strongest first, and over how many persons; nothing and 0 without such attacks."""
    names = tuple(name for name in measured.scores if MEMBERSHIP_ATTACKS[name].access == SEES)
    by_class = measured.by_class(names)
    results = [_attack_within_persons(measured, name, list(by_class[name].values())) for name in names]
    return tuple(sorted(results, key=lambda result: -result.auc)), len(by_class[names[0]]) if names else 0


def _attack_within_persons(measured: Measured, name: str, of_persons: Sequence[float]) -> WithinPersons:
    interval = crossed_mean_interval(np.array([of_persons]), bounds=(0.0, 1.0))
    low, high = (float("nan") if end is None else end for end in (interval.low, interval.high))
    pair = measured.split(name)
    rates = {rate: tpr_at(*pair, value) for rate, value in RATES.items()}
    return WithinPersons(attack=name, auc=interval.mean, low=low, high=high, found=rates)
