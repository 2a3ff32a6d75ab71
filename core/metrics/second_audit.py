"""A recipe in the audit that chose it and in one with fresh seeds: how much the choice flattered it.

Either audit takes the attack that works best against the recipe by the numbers that it is then judged by. As in
`core.metrics.reduction` no bound trusts that choice: one that needs the strongest attack of an audit to be weak holds
for each of them, and one that rests on the attack that looks strongest pays for having looked at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import check_options, stacked
from smoothsweep.core.metrics.dunnett import Bonferroni
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS, Errors, Verdict, turned, verdict


@dataclass(frozen=True, kw_only=True)
class Reaudit:
    """A selected recipe's leak under fresh seeds, beside the leak that it was selected by.

    Attributes:
        selected, fresh: Mean leak in the audit that chose and in the one with fresh seeds, each under its strongest
            attack.
        bias: `fresh` minus `selected`.
        low, high: Its interval, None for one seed on either side.
        verdict: "higher" or "lower" if the interval leaves 0 out ("higher": the first audit made the recipe look better
            than it is), else "inconclusive".
        attacks: Number of attacks that the strongest was chosen from.
    """

    selected: float
    fresh: float
    bias: float
    low: float | None
    high: float | None
    level: float
    verdict: Verdict
    attacks: int = 1

    @property
    def turned(self) -> Reaudit:
        """The comparison in a unit in which small values are leaks, such as a distance."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return replace(
            self,
            selected=-self.selected,
            fresh=-self.fresh,
            bias=-self.bias,
            low=low,
            high=high,
            verdict=turned(self.verdict),
        )


def reaudit(
    selected: Mapping[str, ArrayLike], fresh: Mapping[str, ArrayLike], *, among: int = 1, level: float = 0.95
) -> Reaudit:
    """Compare a recipe in the audit that chose it and in one with fresh seeds, paired by class.

    Args:
        selected, fresh: Attack -> [seeds, classes], large is bad; the same attacks, and the same classes in the same
            order; the seeds are others, and may be more or fewer.
        among: Recipes whose intervals are to hold together.

    The interval of one attack is as in `verdicts.Errors`: from the variance over seeds, pooled over both audits since
    the recipe is the same, and that over the classes of their difference. Of several attacks the bias is at least what
    the attack that looks strongest with fresh seeds has beside every one of the first audit, and the other way round,
    under Bonferroni's correction for the attacks. No interval where either audit has one seed.

    Raises InputError for other attacks or classes, values that are not finite, or an impossible level.
    """
    before, after = _cells(selected, "selected"), _cells(fresh, "fresh")
    if list(selected) != list(fresh):
        raise InputError(f"re-audit: expected the same attacks, got {list(selected)} and {list(fresh)}")
    if before.shape[2] != after.shape[2]:
        raise InputError(f"re-audit: expected the same classes, got {before.shape[2]} and {after.shape[2]} of them")
    check_options(level, 1)
    means = [cells.mean(axis=(1, 2)).max() for cells in (before, after)]
    seeds = min(before.shape[1], after.shape[1])
    low, high = _bounds(before, after, (1 - level) / among) if seeds >= LEAST_SEEDS else (None, None)
    return Reaudit(
        selected=float(means[0]),
        fresh=float(means[1]),
        bias=float(means[1] - means[0]),
        low=low,
        high=high,
        level=level,
        verdict=verdict(low, high, seeds=seeds),
        attacks=len(before),
    )


def together(reaudits: Sequence[Reaudit], *, level: float) -> Reaudit:
    """The average over recipes.

    found: of every recipe, with `among` their number: where all their intervals hold, their average does.
    Raises InputError for none.
    """
    if not reaudits:
        raise InputError("re-audit: expected at least one recipe, got none")
    ends = [(audit.low, audit.high) for audit in reaudits if audit.low is not None and audit.high is not None]
    low, high = (float(end) for end in np.mean(ends, axis=0)) if len(ends) == len(reaudits) else (None, None)
    means = {
        name: float(np.mean([getattr(audit, name) for audit in reaudits])) for name in ("selected", "fresh", "bias")
    }
    attacks = max(audit.attacks for audit in reaudits)
    which = verdict(low, high, seeds=LEAST_SEEDS)  # those of too few seeds have no interval
    return Reaudit(**means, low=low, high=high, level=level, verdict=which, attacks=attacks)


def _cells(values: Mapping[str, ArrayLike], name: str) -> np.ndarray:
    """[attacks, seeds, classes]."""
    return stacked({name if len(values) == 1 else f"{name}, {attack}": cells for attack, cells in values.items()})[1]


def _bounds(before: np.ndarray, after: np.ndarray, alpha: float) -> tuple[float | None, float | None]:
    attacks = len(before)
    gaps = after.mean(axis=(1, 2))[:, None] - before.mean(axis=(1, 2))
    halves = _errors(before, after).half_widths(gaps, alpha, Bonferroni(comparisons=attacks))
    halves = np.where(np.isnan(halves), np.inf, halves)
    low, high = (gaps - halves).min(axis=1).max(), (gaps + halves).max(axis=0).min()
    return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else (None, None)


def _errors(before: np.ndarray, after: np.ndarray) -> Errors:
    """The errors of comparing every attack of the fresh audit with every attack of the first, [fresh, first]."""
    sides, classes = [before.mean(axis=2), after.mean(axis=2)], before.shape[2]
    freedom = sum(side.shape[1] - 1 for side in sides)
    squares = [((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in sides]
    of_seed = (squares[0] + squares[1]) / freedom  # [attacks]
    parts = [(of_seed[:, None] / after.shape[1] + of_seed / before.shape[1], freedom)]
    if classes > 1:
        differences = after.mean(axis=1)[:, None] - before.mean(axis=1)[None]
        parts.append((differences.var(axis=2, ddof=1) / classes, classes - 1))
    return Errors(
        variances=np.stack([variance for variance, _ in parts]),
        freedoms=np.array([free for _, free in parts], float),
        flat=np.all([variance == 0 for variance, _ in parts], axis=0),
        numbers=min(before.shape[1], after.shape[1]) * classes,
    )
