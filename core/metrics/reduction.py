"""How much less each recipe leaks than the baseline under the strongest attack, with the choice of attacks paid for.

The strongest attack is chosen by the same numbers that it is then judged by. So no bound trusts the choice. That the
recipe's best attack is at most so good is claimed only if it holds for every attack of the portfolio, each within its
own interval. That the baseline's is at least so good rests on one attack, the one that looks best, and pays for having
looked at all of them: every bound uses Dunnett's quantile for as many comparisons as there were choices. The bounds
then hold whichever attacks are truly the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from core.errors import InputError
from core.metrics.comparisons import check_options, stacked
from core.metrics.crossed_effects import contrast_errors
from core.metrics.dunnett import Dunnett
from core.metrics.verdicts import LEAST_SEEDS, Errors

Leaks = Mapping[str, Mapping[str, ArrayLike]]
"""Recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all."""

Terms = Sequence[tuple[int, int, int]]
"""A sum of mean leaks: (number of the recipe, number of the attack, weight)."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An estimate and a simultaneous interval of it.

    low, high: None for one seed, which bounds nothing. p: the largest error at which the interval leaves out 0, in view
    of all comparisons made; None for one seed.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None = None

    @property
    def above_zero(self) -> bool:
        """Whether it is clearly above zero."""
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether it is clearly below zero."""
        return self.high is not None and self.high < 0


def reductions(leaks: Leaks, *, baseline: str, level: float = 0.95, span: float | None = None) -> dict[str, Bounded]:
    """Recipe -> its reduction, for all recipes but the baseline: positive where it leaks less.

    level: in (0, 1), of the intervals of all recipes together. span: the most that two leaks can differ by, which no
    interval leaves; None where nothing bounds them.

    Raises InputError for an unknown baseline, recipes under other attacks, or values that `comparisons` refuses.
    """
    cells = LeakCells.of(leaks, baseline=baseline, level=level)
    return {recipe: cells.reduction(number, span=span) for number, recipe in enumerate(leaks) if recipe != baseline}


@dataclass(frozen=True, kw_only=True)
class LeakCells:
    """Leaks of every recipe under every attack, and how bounds on their contrasts are made.

    cells: [recipes, attacks, seeds, classes]. baseline: its number. alpha: the error allowed to all recipes together.
    """

    cells: np.ndarray
    attacks: tuple[str, ...]
    baseline: int
    alpha: float

    @classmethod
    def of(cls, leaks: Leaks, *, baseline: str, level: float) -> LeakCells:
        """Check and stack the leaks. Raises InputError as `reductions`."""
        check_options(level, 1)
        if baseline not in leaks:
            raise InputError(f"baseline: expected one of {', '.join(leaks) or 'the recipes'}, got {baseline!r}")
        attacks = tuple(leaks[baseline])
        for recipe, under in leaks.items():
            if set(under) != set(attacks):
                raise InputError(f"recipe {recipe}: expected leaks under {', '.join(attacks)}, got {', '.join(under)}")
        _, flat = stacked({f"{recipe} under {attack}": leaks[recipe][attack] for recipe in leaks for attack in attacks})
        cells = flat.reshape(len(leaks), len(attacks), *flat.shape[1:])
        return cls(cells=cells, attacks=attacks, baseline=list(leaks).index(baseline), alpha=1 - level)

    @property
    def means(self) -> np.ndarray:
        """[recipes, attacks]."""
        return self.cells.mean(axis=(2, 3))

    def best(self, recipe: int, among: Sequence[int] | None = None) -> int:
        """The attack that looks best against a recipe, the first of several."""
        return max(range(len(self.attacks)) if among is None else among, key=lambda attack: self.means[recipe, attack])

    def reduction(self, recipe: int, *, span: float | None) -> Bounded:
        """How much less a recipe leaks than the baseline, each under its strongest attack."""
        every, theirs = range(len(self.attacks)), self.baseline
        best, best_there = self.best(recipe), self.best(theirs)
        return self.bounded(
            float(self.means[theirs, best_there] - self.means[recipe, best]),
            low=[((theirs, best_there, 1), (recipe, attack, -1)) for attack in every],
            high=[((theirs, attack, 1), (recipe, best, -1)) for attack in every],
            looked_at=len(every),
            span=span,
        )

    def bounded(
        self, value: float, *, low: Sequence[Terms], high: Sequence[Terms], looked_at: int, span: float | None
    ) -> Bounded:
        """Bound `value` by the lowest of the lower ends of `low` and the highest of the upper ends of `high`.

        looked_at: from how many the members that `low` shares, or `high`, were chosen. span: the largest that value can
        be, either way.
        """
        if self.cells.shape[2] < LEAST_SEEDS:
            return Bounded(value=value, low=None, high=None)
        correction = Dunnett(comparisons=looked_at * max(1, len(self.cells) - 1))
        below, errors = self._contrasts(low)
        above, others = self._contrasts(high)
        lower = below - half_widths(errors, below, self.alpha, correction)
        upper = above + half_widths(others, above, self.alpha, correction)
        p = 1.0
        if (below > 0).all() or (above < 0).all():
            gaps, behind = (below, errors) if (below > 0).all() else (above, others)
            p = float(behind.p_values(gaps, correction).max())
        return Bounded(value=value, low=_end(lower.min(), span), high=_end(upper.max(), span), p=p)

    def _contrasts(self, contrasts: Sequence[Terms]) -> tuple[np.ndarray, Errors]:
        """Values of the contrasts, [contrasts], and what they vary by."""
        weights = np.zeros((len(contrasts), *self.cells.shape[:2]))
        for row, terms in enumerate(contrasts):
            for recipe, attack, weight in terms:
                weights[row, recipe, attack] += weight
        return np.einsum("nra,ra->n", weights, self.means), contrast_errors(self.cells, weights)


def half_widths(errors: Errors, gaps: np.ndarray, alpha: float, correction: Dunnett) -> np.ndarray:
    """Half widths, infinite where so few numbers allow no interval."""
    halves = errors.half_widths(gaps, alpha, correction)
    return np.where(np.isnan(halves), np.inf, halves)


def _end(end: float, span: float | None) -> float | None:
    """None where there are too few numbers for one; never beyond what a difference can be."""
    if not np.isfinite(end):
        return None
    return float(end) if span is None else float(np.clip(end, -span, span))
