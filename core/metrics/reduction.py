"""How much less each recipe leaks than the baseline under the strongest attack, with the choice of attacks paid for.

The strongest attack is chosen by the same numbers that it is then judged by. So no bound trusts the choice. That the
recipe's best attack is at most so good is claimed only if it holds for every attack of the portfolio, each within its
own interval. That the baseline's is at least so good rests on one attack, the one that looks best, and pays for having
looked at all of them: every bound uses Dunnett's quantile for as many comparisons as there were choices. The bounds
then hold whichever attacks are truly the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from core.errors import InputError
from core.metrics.comparisons import check_options, stacked
from core.metrics.crossed_effects import CrossedEffects
from core.metrics.dunnett import Dunnett
from core.metrics.verdicts import LEAST_SEEDS, Errors

MOST_SEEDS = 100
"""More than anyone trains: a difference that needs more seeds needs more classes."""

Leaks = Mapping[str, Mapping[str, ArrayLike]]
"""Recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all."""


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
    """The contrast that a lower end rests on: its value, its errors, and the correction that it is subject to."""

    gap: float
    errors: Errors
    correction: Dunnett


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A difference under strongest attacks, and the contrasts that bound it whichever attacks are truly the strongest.

    value: [...]. low, high: weights [..., contrasts, recipes, attacks]; the difference is at least the least of `low`
    and at most the largest of `high`. looked_at: from how many the attack that `low` shares, or `high`, was chosen.
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
    correction: Dunnett


def reductions(
    leaks: Leaks, *, baseline: str, level: float = 0.95, span: float | None = None, among: int = 1
) -> dict[str, Bounded]:
    """Recipe -> its reduction, for all recipes but the baseline: positive where it leaks less.

    level: in (0, 1), of the intervals of all recipes together. span: the most that two leaks can differ by, which no
    interval leaves; None where nothing bounds them. among: how many recipes are compared with the baseline in all,
    where that is more than are given here.

    Raises InputError for an unknown baseline, recipes under other attacks, or values that `comparisons` refuses.
    """
    cells = LeakCells.of(leaks, baseline=baseline, level=level, among=among)
    return {
        recipe: cells.bounded(cells.removed(number), span=span)[0]
        for number, recipe in enumerate(leaks)
        if recipe != baseline
    }


@dataclass(frozen=True, kw_only=True)
class LeakCells:
    """Leaks of every recipe under every attack, and how bounds on their contrasts are made.

    cells: [..., recipes, attacks, seeds, classes]; leading dimensions are sweeps by themselves, which a simulation asks
    all at once. baseline: its number. alpha: the error allowed to all recipes together. among: how many recipes are
    compared with the baseline in all, where that is more than are here.
    """

    cells: np.ndarray
    attacks: tuple[str, ...]
    baseline: int
    alpha: float
    among: int = 1

    @classmethod
    def of(cls, leaks: Leaks, *, baseline: str, level: float, among: int = 1) -> LeakCells:
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
        number = list(leaks).index(baseline)
        return cls(cells=cells, attacks=attacks, baseline=number, alpha=1 - level, among=among)

    @cached_property
    def means(self) -> np.ndarray:
        """[..., recipes, attacks]."""
        return self.cells.mean(axis=(-2, -1))

    @property
    def compared(self) -> int:
        """How many recipes are compared with the baseline, at least 1."""
        return max(1, self.among, self.cells.shape[-4] - 1)

    def best(self, recipe: int, among: Sequence[int] | None = None) -> np.ndarray:
        """The number of the attack that looks best against a recipe, the first of several, [...]."""
        known = np.arange(len(self.attacks)) if among is None else np.asarray(among)
        return known[self.means[..., recipe, known].argmax(axis=-1)]

    def leak(self, recipe: int, attack: np.ndarray) -> np.ndarray:
        """The mean leak of a recipe under an attack, [...], for numbers of attacks [...]."""
        return np.take_along_axis(self.means[..., recipe, :], np.asarray(attack)[..., None], axis=-1)[..., 0]

    def one(self, attack: np.ndarray) -> np.ndarray:
        """Weights 1 of an attack, [..., 1, attacks], for its numbers [...]."""
        return np.eye(len(self.attacks))[np.asarray(attack)][..., None, :]

    def weights(self, recipe: int, *, of_baseline: np.ndarray, of_recipe: np.ndarray) -> np.ndarray:
        """Weights [..., contrasts, recipes, attacks] of contrasts that hold the baseline and one recipe, from those of
        either by attack, [..., contrasts, attacks]."""
        of_baseline, of_recipe = np.broadcast_arrays(of_baseline, of_recipe)
        weights = np.zeros((*of_recipe.shape[:-1], *self.cells.shape[-4:-2]))
        weights[..., self.baseline, :], weights[..., recipe, :] = of_baseline, of_recipe
        return weights

    def removed(self, recipe: int) -> Claim:
        """How much less a recipe leaks than the baseline, each under its strongest attack."""
        every = np.eye(len(self.attacks))
        best, best_there = self.best(recipe), self.best(self.baseline)
        return Claim(
            value=self.leak(self.baseline, best_there) - self.leak(recipe, best),
            low=self.weights(recipe, of_baseline=self.one(best_there), of_recipe=-every),
            high=self.weights(recipe, of_baseline=every, of_recipe=-self.one(best)),
            looked_at=len(self.attacks),
        )

    def ends(self, claim: Claim) -> Ends:
        """The lowest of the lower ends of `claim.low` and the highest of the upper ends of `claim.high`."""
        correction = Dunnett(comparisons=claim.looked_at * self.compared, recipes=self.compared + 1)
        below, above = ((self._values(each), self.effects.errors(each)) for each in (claim.low, claim.high))
        lower = below[0] - half_widths(below[1], below[0], self.alpha, correction)
        upper = above[0] + half_widths(above[1], above[0], self.alpha, correction)
        return Ends(low=lower.min(axis=-1), high=upper.max(axis=-1), below=below, above=above, correction=correction)

    def bounded(self, claim: Claim, *, span: float | None) -> tuple[Bounded, Narrowest | None]:
        """The interval of a claim on one sweep, and the contrast that its lower end rests on.

        span: the largest that value can be, either way.
        """
        value = float(claim.value)
        if self.cells.shape[-2] < LEAST_SEEDS:
            return Bounded(value=value, low=None, high=None), None
        found = self.ends(claim)
        (below, errors), (above, others), correction = found.below, found.above, found.correction
        p = 1.0
        if (below > 0).all() or (above < 0).all():
            gaps, behind = (below, errors) if (below > 0).all() else (above, others)
            p = float(behind.p_values(gaps, correction).max())
        at = int((below - half_widths(errors, below, self.alpha, correction)).argmin())
        narrowest = Narrowest(gap=float(below[at]), errors=_only(errors, at), correction=correction)
        low, high = _end(float(found.low), span), _end(float(found.high), span)
        return Bounded(value=value, low=low, high=high, p=p), narrowest

    def seeds_needed(self, behind: Narrowest) -> int | None:
        """The least number of seeds with which the contrast would be clear, if its value and its variances stayed."""
        now = self.cells.shape[-2]
        for seeds in range(now + 1, MOST_SEEDS + 1):
            more = with_seeds(behind.errors, now, seeds)
            if behind.gap > half_widths(more, np.array([behind.gap]), self.alpha, behind.correction)[0]:
                return seeds
        return None

    @cached_property
    def effects(self) -> CrossedEffects:
        """The model of what contrasts vary by, whose shared parts are computed once."""
        return CrossedEffects(cells=self.cells)

    def _values(self, weights: np.ndarray) -> np.ndarray:
        """Values of contrasts, [..., contrasts]."""
        return np.einsum("...nra,...ra->...n", weights, self.means)


def half_widths(errors: Errors, gaps: np.ndarray, alpha: float, correction: Dunnett) -> np.ndarray:
    """Half widths, infinite where so few numbers allow no interval."""
    halves = errors.half_widths(gaps, alpha, correction)
    return np.where(np.isnan(halves), np.inf, halves)


def with_seeds(errors: Errors, now: int, seeds: int) -> Errors:
    """What the same contrasts would vary by with so many seeds instead of `now`, if all variances stayed."""
    over_seeds, *rest = errors.variances
    free, *others = errors.freedoms
    return replace(
        errors,
        variances=np.stack([over_seeds * now / seeds, *rest]),
        freedoms=np.stack([free * (seeds - 1) / (now - 1), *others]),
        numbers=errors.numbers // now * seeds,
        guard=None if errors.guard is None else with_seeds(errors.guard, now, seeds),
    )


def _only(errors: Errors, at: int) -> Errors:
    return replace(
        errors,
        variances=errors.variances[:, at : at + 1],
        flat=errors.flat[at : at + 1],
        guard=None if errors.guard is None else _only(errors.guard, at),
    )


def _end(end: float, span: float | None) -> float | None:
    """None where there are too few numbers for one; never beyond what a difference can be."""
    if not np.isfinite(end):
        return None
    return float(end) if span is None else float(np.clip(end, -span, span))
