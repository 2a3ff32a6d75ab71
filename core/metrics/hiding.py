"""Does a defense remove what a model tells of its people, or does it only hide it from the attacks that were published?

Two numbers per recipe, beside the baseline's, in the unit of the leak:

* claimed: how much less the recipe leaks than the baseline under the published attack that works best against each;
* removed: the same under the attack that works best against each of all attacks tried, adaptive ones included;
* hidden: claimed minus removed, what the published attacks were blinded for.

A stronger attack may lower what counts as removed, never raise it: it is an upper bound, named with its portfolio.

The strongest attack is chosen by the same numbers that it is then judged by. So no bound trusts the choice. That the
recipe's best attack is at most so good is claimed only if it holds for every attack of the portfolio, each within its
own interval; that the baseline's is at least so good rests on one attack, the one that looks best, and pays for having
looked at all of them: every bound uses Dunnett's quantile for as many comparisons as there were choices. The bounds
then hold whichever attacks are truly the best, and "removes" is said falsely in at most (1 - level) / 2 of all sweeps,
whatever the number of recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from core.errors import InputError
from core.metrics.comparisons import check_options, stacked
from core.metrics.crossed_effects import contrast_errors
from core.metrics.dunnett import Dunnett
from core.metrics.verdicts import LEAST_SEEDS, Errors

Hiding = Literal["removes", "hides", "removes and hides", "leaks more", "cannot tell"]

MOST_SEEDS = 100
"""More than anybody trains: a difference that needs more seeds needs more classes."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An estimate and a simultaneous interval of it; low and high None for one seed, which bounds nothing."""

    value: float
    low: float | None
    high: float | None

    @property
    def above_zero(self) -> bool:
        """Whether it is clearly above zero."""
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether it is clearly below zero."""
        return self.high is not None and self.high < 0


@dataclass(frozen=True, kw_only=True)
class HidingVerdict:
    """What a recipe does to the leak. strongest: the attack that looks best against it, strongest_baseline against the
    baseline; published and published_baseline the same among the published ones. seeds_needed: with so many seeds, all
    else as it is, the larger of removed and hidden would be clear; None where it is, where none of the two is above 0,
    or where `MOST_SEEDS` would not do.
    """

    word: Hiding
    claimed: float
    removed: Bounded
    hidden: Bounded
    strongest: str
    strongest_baseline: str
    published: str
    published_baseline: str
    seeds_needed: int | None


def hides_or_removes(
    leaks: Mapping[str, Mapping[str, ArrayLike]], *, baseline: str, published: Sequence[str], level: float = 0.95,
    span: float | None = None,
) -> dict[str, HidingVerdict]:
    """Recipe -> its verdict against the baseline, for all recipes but the baseline.

    leaks: recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all, controls
    left out ([seeds, 1] for a leak without classes). published: those of the attacks that were published; level: in
    (0, 1), of the intervals of all recipes together. span: the most that two leaks can differ by, which no interval of
    what is removed leaves (nor twice it one of what is hidden); None where nothing bounds them.

    Raises InputError for an unknown baseline or published attack, no
    published attack, recipes that were met by other attacks, or values that `comparisons` refuses.
    """
    check_options(level, 1)
    attacks = _attacks(leaks, baseline, published)
    _, cells = stacked({f"{recipe} under {attack}": leaks[recipe][attack] for recipe in leaks for attack in attacks})
    known = [attacks.index(attack) for attack in dict.fromkeys(published)]
    sweep = _Sweep(cells=cells, recipes=list(leaks), attacks=attacks, published=known, alpha=1 - level,
                   span=span)  # fmt: skip
    return {recipe: sweep.verdict(recipe, baseline) for recipe in leaks if recipe != baseline}


def _attacks(leaks: Mapping[str, Mapping[str, ArrayLike]], baseline: str, published: Sequence[str]) -> list[str]:
    if baseline not in leaks:
        raise InputError(f"baseline: expected one of {', '.join(leaks) or 'the recipes'}, got {baseline!r}")
    attacks = list(leaks[baseline])
    for recipe, under in leaks.items():
        if set(under) != set(attacks):
            raise InputError(f"recipe {recipe}: expected leaks under {', '.join(attacks)}, got {', '.join(under)}")
    unknown = [attack for attack in published if attack not in attacks]
    if unknown or not published:
        raise InputError(f"published: expected some of {', '.join(attacks)}, got {', '.join(unknown) or 'none'}")
    return attacks


@dataclass(frozen=True, kw_only=True)
class _Narrowest:
    """The contrast that a lower end rests on: its value, its errors, and the correction that it is subject to."""

    gap: float
    errors: Errors
    correction: Dunnett


Terms = Sequence[tuple[str, int, int]]
"""A sum of mean leaks: (recipe, number of the attack, weight)."""


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """cells: [recipes x attacks, seeds, classes], attacks innermost."""

    cells: np.ndarray
    recipes: list[str]
    attacks: list[str]
    published: list[int]
    alpha: float
    span: float | None

    def verdict(self, recipe: str, baseline: str) -> HidingVerdict:
        means = self.cells.mean(axis=(1, 2)).reshape(len(self.recipes), len(self.attacks))
        mine, theirs = means[self.recipes.index(recipe)], means[self.recipes.index(baseline)]
        every, published = range(len(self.attacks)), self.published
        best, best_there = _best(mine, every), _best(theirs, every)
        known, known_there = _best(mine, published), _best(theirs, published)
        claimed, gone = float(theirs[known_there] - mine[known]), float(theirs[best_there] - mine[best])
        removed, behind_removed = self._bounded(
            gone,
            low=[((baseline, best_there, 1), (recipe, a, -1)) for a in every],
            high=[((baseline, a, 1), (recipe, best, -1)) for a in every],
            looked_at=len(every), span=self.span,
        )  # fmt: skip
        hidden, behind_hidden = self._bounded(
            claimed - gone,
            low=[
                ((recipe, best, 1), (recipe, p, -1), (baseline, known_there, 1), (baseline, a, -1))
                for p in published for a in every
            ],
            high=[
                ((recipe, a, 1), (recipe, known, -1), (baseline, p, 1), (baseline, best_there, -1))
                for p in published for a in every
            ],
            looked_at=len(every) * len(published), span=None if self.span is None else 2 * self.span,
        )  # fmt: skip
        word = _word(removed, hidden)
        larger = behind_removed if gone >= claimed - gone else behind_hidden
        return HidingVerdict(
            word=word, claimed=claimed, removed=removed, hidden=hidden,
            strongest=self.attacks[best], strongest_baseline=self.attacks[best_there],
            published=self.attacks[known], published_baseline=self.attacks[known_there],
            seeds_needed=self._seeds_needed(larger) if word == "cannot tell" and larger else None,
        )  # fmt: skip

    def _bounded(
        self, value: float, *, low: Sequence[Terms], high: Sequence[Terms], looked_at: int, span: float | None
    ) -> tuple[Bounded, _Narrowest | None]:
        """value between the lowest of the lower ends of `low` and the highest of the upper ends of `high`, and what the
        former rests on. looked_at: from how many the members that `low` shares, or `high`, were chosen. span: the
        largest that value can be, either way."""
        if self.cells.shape[1] < LEAST_SEEDS:
            return Bounded(value=value, low=None, high=None), None
        correction = Dunnett(comparisons=looked_at * max(1, len(self.recipes) - 1))
        below, errors = self._contrasts(low)
        lower = below - _halves(errors, below, self.alpha, correction)
        above, others = self._contrasts(high)
        upper = above + _halves(others, above, self.alpha, correction)
        at = int(lower.argmin())
        behind = _Narrowest(gap=float(below[at]), errors=_only(errors, at), correction=correction)
        return Bounded(value=value, low=_end(lower[at], span), high=_end(upper.max(), span)), behind

    def _contrasts(self, contrasts: Sequence[Terms]) -> tuple[np.ndarray, Errors]:
        """Values of the contrasts, [contrasts], and what they vary by."""
        weights = np.zeros((len(contrasts), len(self.recipes), len(self.attacks)))
        for row, terms in enumerate(contrasts):
            for recipe, attack, weight in terms:
                weights[row, self.recipes.index(recipe), attack] += weight
        cells = self.cells.reshape(len(self.recipes), len(self.attacks), *self.cells.shape[1:])
        values = np.einsum("nra,ra->n", weights, cells.mean(axis=(2, 3)))
        return values, contrast_errors(cells, weights)

    def _freedom(self, seeds: int) -> int:
        """Of the pooled variance over seeds: attacks on one target share its training, and count as one."""
        return max(1, len(self.recipes) - 1) * (seeds - 1)

    def _seeds_needed(self, behind: _Narrowest) -> int | None:
        """The least number of seeds with which the contrast would be clear, if its value and its variances stayed."""
        now = self.cells.shape[1]
        for seeds in range(now + 1, MOST_SEEDS + 1):
            over_seeds, *rest = behind.errors.variances
            freedoms = np.array([self._freedom(seeds), *behind.errors.freedoms[1:]], dtype=np.float64)
            more = replace(behind.errors, variances=np.stack([over_seeds * now / seeds, *rest]), freedoms=freedoms,
                           numbers=behind.errors.numbers // now * seeds)  # fmt: skip
            if behind.gap > _halves(more, np.array([behind.gap]), self.alpha, behind.correction)[0]:
                return seeds
        return None


def _best(means: np.ndarray, among: Sequence[int]) -> int:
    return max(among, key=lambda attack: means[attack])


def _halves(errors: Errors, gaps: np.ndarray, alpha: float, correction: Dunnett) -> np.ndarray:
    """Half widths, infinite where so few numbers allow no interval."""
    halves = errors.half_widths(gaps, alpha, correction)
    return np.where(np.isnan(halves), np.inf, halves)


def _only(errors: Errors, at: int) -> Errors:
    return replace(errors, variances=errors.variances[:, at : at + 1], flat=errors.flat[at : at + 1])


def _end(end: float, span: float | None) -> float | None:
    """None where there are too few numbers for one; never beyond what a difference can be."""
    if not np.isfinite(end):
        return None
    return float(end) if span is None else float(np.clip(end, -span, span))


def _word(removed: Bounded, hidden: Bounded) -> Hiding:
    if removed.below_zero:
        return "leaks more"
    if removed.above_zero:
        return "removes and hides" if hidden.above_zero else "removes"
    return "hides" if hidden.above_zero else "cannot tell"
