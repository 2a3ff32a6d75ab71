"""How much less one recipe leaks than another under the strongest attack, with the choice of attacks paid for.

The strongest attack is chosen by the same numbers that it is then judged by. So no bound trusts the choice. That the
recipe's best attack is at most so good is claimed only if it holds for every attack of the portfolio, each within its
own interval. That the reference's is at least so good rests on one attack, the one that looks best, and pays for having
looked at all of them: every bound uses a quantile for as many comparisons as there were choices. The bounds then hold
whichever attacks are truly the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from core.errors import InputError
from core.metrics.comparisons import check_options, stacked
from core.metrics.crossed_effects import contrast_errors
from core.metrics.dunnett import Correction
from core.metrics.verdicts import LEAST_SEEDS, Errors

MOST_SEEDS = 100
"""More than anyone trains: a difference that needs more seeds needs more classes."""

_ROUNDING = 1e-12  # a difference this small beside the values themselves is rounding

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


@dataclass(frozen=True, kw_only=True)
class Narrowest:
    """The contrast that the end nearest to zero rests on: its size, its errors, and the correction that it is subject
    to."""

    gap: float
    errors: Errors
    correction: Correction


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A contrast of strongest attacks. value: as they look; low, high: the contrasts that bound it from below and
    above, equally many in all claims that are bounded together."""

    value: float
    low: Sequence[Terms]
    high: Sequence[Terms]


@dataclass(frozen=True, kw_only=True)
class LeakCells:
    """Leaks of every recipe under every attack, and how bounds on their contrasts are made.

    cells: [recipes, attacks, seeds, classes]. alpha: the error allowed to all claims that are bounded together.
    """

    cells: np.ndarray
    attacks: tuple[str, ...]
    alpha: float

    @classmethod
    def of(cls, leaks: Leaks, *, level: float) -> LeakCells:
        """Check and stack the leaks. Raises InputError for no recipe, recipes under other attacks, a level outside
        (0, 1), or values that `comparisons` refuses."""
        check_options(level, 1)
        attacks = tuple(next(iter(leaks.values()), ()))
        for recipe, under in leaks.items():
            if set(under) != set(attacks):
                raise InputError(f"recipe {recipe}: expected leaks under {', '.join(attacks)}, got {', '.join(under)}")
        _, flat = stacked({f"{recipe} under {attack}": leaks[recipe][attack] for recipe in leaks for attack in attacks})
        cells = flat.reshape(len(leaks), len(attacks), *flat.shape[1:])
        return cls(cells=cells, attacks=attacks, alpha=1 - level)

    @cached_property
    def means(self) -> np.ndarray:
        """[recipes, attacks]."""
        return self.cells.mean(axis=(2, 3))

    def best(self, recipe: int, among: Sequence[int] | None = None) -> int:
        """The attack that looks best against a recipe, the first of several."""
        return max(range(len(self.attacks)) if among is None else among, key=lambda attack: self.means[recipe, attack])

    def reduction(self, recipe: int, reference: int) -> Claim:
        """How much less a recipe leaks than the reference, each under its strongest attack."""
        every = range(len(self.attacks))
        best, best_there = self.best(recipe), self.best(reference)
        return Claim(
            value=float(self._rounded(self.means[reference, best_there] - self.means[recipe, best])),
            low=[((reference, best_there, 1), (recipe, attack, -1)) for attack in every],
            high=[((reference, attack, 1), (recipe, best, -1)) for attack in every],
        )

    def bounded(
        self, claims: Sequence[Claim], *, correction: Correction, span: float | None
    ) -> list[tuple[Bounded, Narrowest | None]]:
        """Bound each claim by the lowest of its lower ends and the highest of its upper ends; and what that rests on.

        correction: counts all claims, times the choices that each makes. span: the largest that a value can be, either
        way; None where nothing bounds it.
        """
        if self.cells.shape[2] < LEAST_SEEDS or not claims:
            return [(Bounded(value=claim.value, low=None, high=None), None) for claim in claims]
        below, above = self._ends([one.low for one in claims]), self._ends([one.high for one in claims], turn=-1)
        lower, upper = (
            side.gaps - half_widths(side.errors, side.gaps, self.alpha, correction) for side in (below, above)
        )
        each = len(below.gaps) // len(claims)
        p_values = [side.p_values(each, correction) for side in (below, above)]
        found = []
        for row, claim in enumerate(claims):
            mine = slice(row * each, (row + 1) * each)
            sides = (below, lower), (above, upper)
            nearest, ends = sides[claim.value < 0]
            p = float(min(side[row] for side in p_values))
            behind = nearest.only(mine.start + int(ends[mine].argmin()), correction)
            low, high = float(lower[mine].min()), -float(upper[mine].min())
            found.append((Bounded(value=claim.value, low=_end(low, span), high=_end(high, span), p=p), behind))
        return found

    def seeds_needed(self, behind: Narrowest) -> int | None:
        """The least number of seeds with which the contrast would be clear, if its value and its variances stayed."""
        now = self.cells.shape[2]
        for seeds in range(now + 1, MOST_SEEDS + 1):
            over_seeds, *rest = behind.errors.variances
            freedom = max(1, len(self.cells) - 1) * (seeds - 1)
            freedoms = np.array([freedom, *behind.errors.freedoms[1:]], dtype=np.float64)
            numbers = behind.errors.numbers // now * seeds
            variances = np.stack([over_seeds * now / seeds, *rest])
            more = replace(behind.errors, variances=variances, freedoms=freedoms, numbers=numbers)
            if behind.gap > half_widths(more, np.array([behind.gap]), self.alpha, behind.correction)[0]:
                return seeds
        return None

    def _ends(self, contrasts: Sequence[Sequence[Terms]], turn: int = 1) -> _Ends:
        """Values of all contrasts in one row, times `turn`, and what they vary by."""
        listed = [terms for one in contrasts for terms in one]
        weights = np.zeros((len(listed), *self.cells.shape[:2]))
        for row, terms in enumerate(listed):
            for recipe, attack, weight in terms:
                weights[row, recipe, attack] += turn * weight
        return _Ends(gaps=self._rounded(np.einsum("nra,ra->n", weights, self.means)),
                     errors=contrast_errors(self.cells, weights))  # fmt: skip

    def _rounded(self, gaps: np.ndarray) -> np.ndarray:
        """Differences without those that are rounding."""
        return np.where(np.abs(gaps) <= _ROUNDING * float(np.abs(self.cells).max()), 0.0, gaps)


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """Contrasts that bound claims from one side. gaps: their values [contrasts], above zero where the claim is."""

    gaps: np.ndarray
    errors: Errors

    def only(self, at: int, correction: Correction) -> Narrowest:
        """The contrast at this place."""
        return Narrowest(gap=float(self.gaps[at]), errors=self._errors_of(slice(at, at + 1)), correction=correction)

    def p_values(self, each: int, correction: Correction) -> np.ndarray:
        """The largest p of each claim's contrasts, `each` of them a claim; 1 where one is not above zero."""
        found = np.ones(len(self.gaps) // each)
        clear = (self.gaps.reshape(-1, each) > 0).all(axis=1)
        if clear.any():
            rows = np.repeat(clear, each)
            of_each = self._errors_of(rows).p_values(self.gaps[rows], correction)
            found[clear] = of_each.reshape(-1, each).max(axis=1)
        return found

    def _errors_of(self, rows: slice | np.ndarray) -> Errors:
        return replace(self.errors, variances=self.errors.variances[:, rows], flat=self.errors.flat[rows])


def half_widths(errors: Errors, gaps: np.ndarray, alpha: float, correction: Correction) -> np.ndarray:
    """Half widths, infinite where so few numbers allow no interval."""
    halves = errors.half_widths(gaps, alpha, correction)
    return np.where(np.isnan(halves), np.inf, halves)


def _end(end: float, span: float | None) -> float | None:
    """None where there are too few numbers for one; never beyond what a difference can be."""
    if not np.isfinite(end):
        return None
    return float(end) if span is None else float(np.clip(end, -span, span))
