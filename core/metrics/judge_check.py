"""Whether a judge can tell a leak: its answers to real photographs of the same people, known before any attack.

Accuracy is corrected for chance as Cohen's kappa (1960, Educ. Psychol. Meas. 20): (accuracy - chance) / (1 - chance).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scipy import stats

from smoothsweep.core.text import NBSP

FAR = 0.2
"""Chance-corrected accuracy that the whole interval must exceed; Landis and Koch (1977) call less "slight"."""
HALF = 0.5
"""Fraction of the targets' accuracy below which a judge knows too little of the people that they know."""
GOOD = 0.8
"""Accuracy from which on a leak is shown without the judge's own accuracy beside it."""


@dataclass(frozen=True, kw_only=True)
class JudgeCheck:
    """A judge's answers to real photographs.

    Attributes:
        real: Fraction that it is right about; low and high: Wilson's interval, `real` itself where the number of
            photographs is not known.
        chance: Fraction that a judge who knows nothing is right about; None where not known.
        targets: The targets' test accuracy; None where it does not compare.
        reach: Fraction of photographs, projected into the prior, that it is right about; None where not measured.
        why: Why no leak can be told by it; empty where one can.
    """

    real: float
    low: float
    high: float
    chance: float | None
    targets: float | None
    reach: float | None
    why: Literal["", "chance", "targets", "reach"]

    @property
    def is_good(self) -> bool:
        """Whether its word needs no figure beside it."""
        return not self.why and self.real >= GOOD

    @property
    def words(self) -> str:
        """What it is right about, and why no leak can be told by it, without a full stop."""
        because = {
            "": "",
            "chance": f", and chance is {_percent(self.chance)}",
            "targets": f", less than half as often as the targets ({_percent(self.targets)})",
            "reach": f", and of {_percent(self.reach)} as the prior draws them, which is more",
        }[self.why]
        ends = "" if self.low == self.high else f" [{100 * self.low:.0f}, {100 * self.high:.0f}]"
        return f"it is right about {_percent(self.real)}{ends} of real photographs{because}"


def check_judge(
    real: float,
    *,
    images: int | None,
    chance: float | None,
    targets: float | None = None,
    reach: tuple[float, int] | None = None,
    level: float = 0.95,
) -> JudgeCheck:
    """Whether a judge's interval on real photographs clears chance by far, and contradicts nothing else that is known.

    images: how many photographs; reach: fraction and number of projected ones. All fractions lie in [0, 1].
    """
    low, high = _wilson(real, images, level)
    why: Literal["", "chance", "targets", "reach"] = ""
    if chance is not None and (low - chance) / (1 - chance) <= FAR:
        why = "chance"
    elif targets is not None and real < HALF * targets:
        why = "targets"
    elif reach is not None and _wilson(*reach, level)[0] > high:
        why = "reach"
    reached = None if reach is None else reach[0]
    return JudgeCheck(real=real, low=low, high=high, chance=chance, targets=targets, reach=reached, why=why)


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f}{NBSP}%"


def _wilson(rate: float, images: int | None, level: float) -> tuple[float, float]:
    if not images:
        return rate, rate
    ends = stats.binomtest(round(rate * images), images).proportion_ci(level, "wilson")
    return float(ends.low), float(ends.high)
