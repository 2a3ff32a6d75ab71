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

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import check_options, stacked
from smoothsweep.core.metrics.crossed_effects import CrossedEffects
from smoothsweep.core.metrics.dunnett import Correction, Dunnett
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS, Errors

_ROUNDING = 1e-12  # a difference this small beside the values themselves is rounding

Leaks = Mapping[str, Mapping[str, ArrayLike]]
"""Recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An estimate and a simultaneous interval of it.

    Attributes:
        low, high: None for one seed, which bounds nothing.
        p: The largest error at which the interval leaves out 0, in view of all comparisons made; None for one seed.
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
class Claim:
    """A difference under strongest attacks, and the contrasts that bound it whichever attacks are truly the strongest.

    Attributes:
        value: [...].
        low, high: Weights [..., contrasts, recipes, attacks]; the difference is at least the least of `low` and at most
            the largest of `high`.
        looked_at: Number of attacks from which the attack that `low` shares, or `high`, was chosen.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    looked_at: int


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The interval of a claim, [...], infinite where so few numbers allow none, and the contrasts that it rests on:
    their values [..., contrasts], their errors, and the correction that they are subject to."""

    low: np.ndarray
    high: np.ndarray
    below: tuple[np.ndarray, Errors]
    above: tuple[np.ndarray, Errors]
    correction: Correction

    @property
    def p_values(self) -> np.ndarray:
        """The largest error at which the interval of each claim leaves out 0, [...], computed where one may."""
        p_values = np.ones(self.low.shape)
        for sign, (gaps, errors) in ((1, self.below), (-1, self.above)):
            clear = np.asarray((sign * gaps > 0).all(axis=-1))
            if clear.any():
                p_values[clear] = errors.of(clear).p_values(gaps[clear], self.correction).max(axis=-1)
        return p_values


def reductions(
    leaks: Leaks, *, baseline: str, level: float = 0.95, span: float | None = None, among: int = 1
) -> dict[str, Bounded]:
    """Recipe -> its reduction, for all recipes but the baseline: positive where it leaks less. The numbers that
    `leak_comparisons` has words for, where only they are wanted.

    Args:
        level: Confidence level in (0, 1), of the intervals of all recipes together.
        span: The most that two leaks can differ by, which no interval leaves; None where nothing bounds them.
        among: How many recipes are compared with the baseline in all, where that is more than are given here.

    Raises InputError for an unknown baseline, recipes under other attacks, or values that `comparisons` refuses.
    """
    cells = LeakCells.of(leaks, level=level)
    reference, family = number_of(baseline, leaks), against_baseline(len(leaks), among)
    return {
        recipe: cells.bounded(cells.reduction(number, reference), family=family, span=span)
        for number, recipe in enumerate(leaks)
        if recipe != baseline
    }


def number_of(baseline: str, leaks: Leaks) -> int:
    """The number of the baseline among the recipes. Raises InputError for an unknown one."""
    if baseline not in leaks:
        raise InputError(f"baseline: expected one of {', '.join(leaks) or 'the recipes'}, got {baseline!r}")
    return list(leaks).index(baseline)


def against_baseline(recipes: int, among: int = 1) -> Dunnett:
    """The family of comparisons with the baseline: of `recipes`, itself among them, or of `among` beside it where that
    is more."""
    others = max(1, among, recipes - 1)
    return Dunnett(comparisons=others, recipes=others + 1)


@dataclass(frozen=True, kw_only=True)
class LeakCells:
    """Leaks of every recipe under every attack, and how bounds on their contrasts are made.

    Attributes:
        cells: [..., recipes, attacks, seeds, classes]; leading dimensions are sweeps by themselves, which a simulation
            asks all at once.
        alpha: The error allowed to all claims that are bounded together.
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
        """[..., recipes, attacks]."""
        return self.cells.mean(axis=(-2, -1))

    def best(self, recipe: int, among: Sequence[int] | None = None) -> np.ndarray:
        """The number of the attack that looks best against a recipe, the first of several, [...]."""
        known = np.arange(len(self.attacks)) if among is None else np.asarray(among)
        return known[self.means[..., recipe, known].argmax(axis=-1)]

    def leak(self, recipe: int, attack: np.ndarray) -> np.ndarray:
        """The mean leak of a recipe under an attack, [...], for numbers of attacks [...]."""
        return np.take_along_axis(self.means[..., recipe, :], np.asarray(attack)[..., None], axis=-1)[..., 0]

    def single_attack(self, attack: np.ndarray) -> np.ndarray:
        """Weights 1 of an attack, [..., 1, attacks], for its numbers [...]."""
        return np.eye(len(self.attacks))[np.asarray(attack)][..., None, :]

    def weights(self, recipe: int, reference: int, *, of_reference: np.ndarray, of_recipe: np.ndarray) -> np.ndarray:
        """Weights [..., contrasts, recipes, attacks] of contrasts that hold two recipes, from those of either by
        attack, [..., contrasts, attacks]."""
        of_reference, of_recipe = np.broadcast_arrays(of_reference, of_recipe)
        weights = np.zeros((*of_recipe.shape[:-1], *self.cells.shape[-4:-2]))
        weights[..., reference, :], weights[..., recipe, :] = of_reference, of_recipe
        return weights

    def reduction(self, recipe: int, reference: int) -> Claim:
        """How much less a recipe leaks than the reference, each under its strongest attack."""
        every, both = np.eye(len(self.attacks)), (recipe, reference)
        best, best_there = self.best(recipe), self.best(reference)
        return Claim(
            value=_rounded(self.leak(reference, best_there) - self.leak(recipe, best), self._largest),
            low=self.weights(*both, of_reference=self.single_attack(best_there), of_recipe=-every),
            high=self.weights(*both, of_reference=every, of_recipe=-self.single_attack(best)),
            looked_at=len(self.attacks),
        )

    def ends(self, claim: Claim, family: Correction) -> Ends:
        """The lowest of the lower ends of `claim.low` and the highest of the upper ends of `claim.high`.

        family: counts the pairs that are bounded together; the choice of attacks is paid for on top.
        """
        correction = replace(family, comparisons=claim.looked_at * family.comparisons)
        below, above = ((self._values(each), self.effects.errors(each)) for each in (claim.low, claim.high))
        lower = below[0] - half_widths(below[1], below[0], self.alpha, correction)
        upper = above[0] + half_widths(above[1], above[0], self.alpha, correction)
        return Ends(low=lower.min(axis=-1), high=upper.max(axis=-1), below=below, above=above, correction=correction)

    def bounded(self, claim: Claim, *, family: Correction, span: float | None) -> Bounded:
        """The interval of a claim on one sweep, as `all_bounded`."""
        return self.all_bounded([claim], family=family, span=span)[0]

    def all_bounded(self, claims: Sequence[Claim], *, family: Correction, span: float | None) -> list[Bounded]:
        """The intervals of claims on one sweep, all of as many contrasts.

        family: as of `ends`. span: the largest that a value can be, either way; None where nothing bounds it.
        """
        if self.cells.shape[-2] < LEAST_SEEDS or not claims:
            return [Bounded(value=float(claim.value), low=None, high=None) for claim in claims]
        low, high = (np.stack([getattr(claim, side) for claim in claims]) for side in ("low", "high"))
        values = np.array([float(claim.value) for claim in claims])
        together = Claim(value=values, low=low, high=high, looked_at=claims[0].looked_at)
        ends = replace(self, cells=self.cells[None]).ends(together, family)
        numbers = zip(values.tolist(), ends.low.tolist(), ends.high.tolist(), ends.p_values.tolist(), strict=True)
        return [
            Bounded(value=value, low=_end(low, span), high=_end(high, span), p=p) for value, low, high, p in numbers
        ]

    @cached_property
    def effects(self) -> CrossedEffects:
        """The model of what contrasts vary by, whose shared parts are computed once."""
        return CrossedEffects(cells=self.cells)

    def _values(self, weights: np.ndarray) -> np.ndarray:
        """Values of contrasts, [..., contrasts]."""
        return _rounded(np.einsum("...nra,...ra->...n", weights, self.means), self._largest[..., None])

    @cached_property
    def _largest(self) -> np.ndarray:
        """The largest leak, [...]."""
        return np.abs(self.cells).max(axis=(-4, -3, -2, -1))


def _rounded(gaps: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Differences without those that are rounding."""
    return np.where(np.abs(gaps) <= _ROUNDING * largest, 0.0, gaps)


def half_widths(errors: Errors, gaps: np.ndarray, alpha: float, correction: Correction) -> np.ndarray:
    """Half widths, infinite where so few numbers allow no interval."""
    halves = errors.half_widths(gaps, alpha, correction)
    return np.where(np.isnan(halves), np.inf, halves)


def _end(end: float, span: float | None) -> float | None:
    """None where there are too few numbers for one; never beyond what a difference can be."""
    if not np.isfinite(end):
        return None
    return float(end) if span is None else float(np.clip(end, -span, span))
