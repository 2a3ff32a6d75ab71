"""The one comparison of leaks: every output shows what `compare_leaks` finds, and none computes another.

A *reduction* is the leak of a reference minus the leak of a recipe, each under the attack that works best against it.
It is positive where the recipe leaks less. Four words say what its interval allows:

* reduces: the whole interval lies above zero;
* leaks more: the whole interval lies below zero;
* hides: neither, and the published attacks clearly lose leak that an adapted attack still finds;
* inconclusive: neither, and nothing is clearly hidden.

Comparisons with the baseline are one family, under Dunnett's quantile for all recipes beside it; "reduces" is said
falsely in at most (1 - level) / 2 of all sweeps, whatever the number of recipes. All other pairs are under Bonferroni's
correction for every pair. Either counts the attacks that the strongest was chosen from.

The strongest attack is chosen by the same numbers that it is then judged by. So no bound trusts the choice. That the
recipe's best attack is at most so good is claimed only if it holds for every attack of the portfolio, each within its
own interval. That the reference's is at least so good rests on one attack, the one that looks best, and pays for having
looked at all of them: every bound uses a quantile for as many comparisons as there were choices. The bounds then hold
whichever attacks are truly the best.

What a defense hides is leak that the published attacks lose and an adapted attack still finds. Beside the baseline's
leak, in its unit:

* claimed: how much less the recipe leaks than the baseline under the published attack that works best against each;
* reduction: the same under the attack that works best against each of all attacks tried, adapted ones included;
* hidden: claimed minus reduction, what the published attacks miss because of gradient masking.

A stronger attack may lower a reduction, never raise it: it is an upper bound, named with its portfolio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import Comparisons, Pair, stacked
from smoothsweep.core.metrics.power import Needed, needed
from smoothsweep.core.metrics.verdicts import (
    INCONCLUSIVE,
    LEAST_SEEDS,
    Bonferroni,
    Bounded,
    Correction,
    CrossedEffects,
    Dunnett,
    Errors,
    turned,
    verdict,
)

_ROUNDING = 1e-12  # a difference this small beside the values themselves is rounding

Leaks = Mapping[str, Mapping[str, ArrayLike]]
"""Recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all."""


@dataclass(frozen=True, kw_only=True)
class LeakContrasts:
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
        """Check and stack the leaks. Raises InputError for no recipe, recipes under other attacks, or values
        that `comparisons` refuses."""
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

    def reduction(self, recipe: int, reference: int) -> LeakContrasts:
        """How much less a recipe leaks than the reference, each under its strongest attack."""
        every, both = np.eye(len(self.attacks)), (recipe, reference)
        best, best_there = self.best(recipe), self.best(reference)
        return LeakContrasts(
            value=_rounded(self.leak(reference, best_there) - self.leak(recipe, best), self._largest),
            low=self.weights(*both, of_reference=self.single_attack(best_there), of_recipe=-every),
            high=self.weights(*both, of_reference=every, of_recipe=-self.single_attack(best)),
            looked_at=len(self.attacks),
        )

    def ends(self, claim: LeakContrasts, family: Correction) -> Ends:
        """The lowest of the lower ends of `claim.low` and the highest of the upper ends of `claim.high`.

        family: counts the pairs that are bounded together; the choice of attacks is paid for on top.
        """
        correction = replace(family, comparisons=claim.looked_at * family.comparisons)
        below, above = ((self._values(each), self.effects.errors(each)) for each in (claim.low, claim.high))
        lower = below[0] - half_widths(below[1], below[0], self.alpha, correction)
        upper = above[0] + half_widths(above[1], above[0], self.alpha, correction)
        return Ends(low=lower.min(axis=-1), high=upper.max(axis=-1), below=below, above=above, correction=correction)

    def all_bounded(self, claims: Sequence[LeakContrasts], *, family: Correction, span: float | None) -> list[Bounded]:
        """The intervals of claims on one sweep, all of as many contrasts.

        family: as of `ends`. span: the largest that a value can be, either way; None where nothing bounds it.
        """
        if self.cells.shape[-2] < LEAST_SEEDS or not claims:
            return [Bounded(value=float(claim.value), low=None, high=None) for claim in claims]
        low, high = (np.stack([getattr(claim, side) for claim in claims]) for side in ("low", "high"))
        values = np.array([float(claim.value) for claim in claims])
        together = LeakContrasts(value=values, low=low, high=high, looked_at=claims[0].looked_at)
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


@dataclass(frozen=True, kw_only=True)
class HiddenLeak:
    """What published attacks miss of a recipe's leak. part: claimed minus the reduction. published and
    published_baseline: the published attack that looks best against the recipe, and against the baseline."""

    claimed: float
    part: Bounded
    published: str
    published_baseline: str

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval of the hidden part lies above zero."""
        return self.part.above_zero


def hidden_parts(
    cells: LeakCells,
    recipes: Sequence[int],
    baseline: int,
    published: Sequence[int],
    *,
    family: Dunnett,
    span: float | None,
) -> list[HiddenLeak]:
    """The hidden part of each recipe.

    Args:
        published: The numbers of the published attacks.
        family: Counts the recipes that are compared with the baseline.
        span: The most that two leaks can differ by, None where nothing bounds them; a hidden part is a difference of
            two such differences.
    """
    claims = [hidden_claim(cells, recipe, baseline, published) for recipe in recipes]
    parts = cells.all_bounded(claims, family=family, span=None if span is None else 2 * span)
    known_there = cells.best(baseline, published)
    hidden = []
    for recipe, part in zip(recipes, parts, strict=True):
        known = cells.best(recipe, published)
        claimed = float(cells.leak(baseline, known_there) - cells.leak(recipe, known))
        names = cells.attacks[known], cells.attacks[known_there]
        hidden.append(HiddenLeak(claimed=claimed, part=part, published=names[0], published_baseline=names[1]))
    return hidden


def hidden_claim(cells: LeakCells, recipe: int, baseline: int, published: Sequence[int]) -> LeakContrasts:
    """Claimed minus the reduction, for numbers of a recipe, its baseline and the published attacks."""
    every, both = np.eye(len(cells.attacks)), (recipe, baseline)
    best, best_there = cells.best(recipe), cells.best(baseline)
    known, known_there = cells.best(recipe, published), cells.best(baseline, published)
    weights_of = cells.single_attack
    # Every published attack beside every attack.
    p, a = (each.reshape(-1, len(every)) for each in np.broadcast_arrays(every[list(published)][:, None], every[None]))
    claimed = cells.leak(baseline, known_there) - cells.leak(recipe, known)
    return LeakContrasts(
        value=claimed - cells.reduction(*both).value,
        low=cells.weights(*both, of_recipe=weights_of(best) - p, of_reference=weights_of(known_there) - a),
        high=cells.weights(*both, of_recipe=a - weights_of(known), of_reference=p - weights_of(best_there)),
        looked_at=len(every) * len(published),
    )


Word = Literal["reduces", "hides", "leaks more", "inconclusive"]
REDUCES: Word = "reduces"
HIDES: Word = "hides"
LEAKS_MORE: Word = "leaks more"


@dataclass(frozen=True, kw_only=True)
class LeakComparison:
    """A recipe beside a reference, in the unit of the leak.

    Attributes:
        word: What the interval allows to say.
        reduction: Leak of the reference minus leak of the recipe: positive where the recipe leaks less.
        low: Lower end of the simultaneous interval of the reduction; None for one seed.
        high: Upper end; None for one seed.
        p: The largest error at which the interval leaves out 0; None for one seed.
        comparisons: How many comparisons the interval is corrected for: pairs times attacks chosen from.
        attack: The attack that looks best against the recipe.
        attack_reference: The attack that looks best against the reference.
        seeds: Seeds that the comparison rests on.
        classes: Classes that it rests on; 1 for a leak without classes.
        needed: How much would settle an inconclusive one; None where the word is clear, for one seed, for a difference
            that is too small to matter, and for pairs without the baseline.
        hidden: What published attacks miss; None where attacks are all of one kind, or the reference is no baseline.
    """

    word: Word
    reduction: float
    low: float | None
    high: float | None
    p: float | None
    comparisons: int
    attack: str
    attack_reference: str
    seeds: int
    classes: int = 1
    needed: Needed | None = None
    hidden: HiddenLeak | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the reduction leaves out 0."""
        return self.word in (REDUCES, LEAKS_MORE)

    @property
    def turned(self) -> LeakComparison:
        """The reference beside the recipe."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        word: Word = {REDUCES: LEAKS_MORE, LEAKS_MORE: REDUCES}.get(self.word, INCONCLUSIVE)
        return replace(
            self,
            word=word,
            reduction=-self.reduction,
            low=low,
            high=high,
            attack=self.attack_reference,
            attack_reference=self.attack,
            needed=None,
            hidden=None,
        )


@dataclass(frozen=True, kw_only=True)
class LeakComparisons:
    """Every recipe beside the baseline, and every other pair where asked for.

    Attributes:
        leaks: Recipe -> mean leak under the attack that looks best against it.
        baseline: The recipe that the others are compared with first of all; None without one.
        by_pair: (recipe, reference) -> their comparison; each pair once.
    """

    leaks: Mapping[str, float]
    baseline: str | None
    by_pair: Mapping[tuple[str, str], LeakComparison]

    @property
    def verdicts(self) -> dict[str, LeakComparison]:
        """Recipe -> its comparison with the baseline."""
        return {
            recipe: comparison for (recipe, reference), comparison in self.by_pair.items() if reference == self.baseline
        }

    def against(self, recipe: str, reference: str) -> LeakComparison | None:
        """The comparison of two recipes; None where they were not compared."""
        comparison = self.by_pair.get((recipe, reference))
        back = self.by_pair.get((reference, recipe))
        return comparison if comparison is not None else None if back is None else back.turned

    @property
    def pairs(self) -> Comparisons:
        """The comparisons as differences, first recipe minus second, by which recipes are chosen."""
        pairs = tuple(_pair(*names, comparison) for names, comparison in self.by_pair.items())
        return Comparisons(means=dict(self.leaks), pairs=pairs)


def compare_leaks(
    leaks: Leaks,
    *,
    baseline: str | None,
    published: Sequence[str] = (),
    level: float = 0.95,
    span: float | None = None,
    every_pair: bool = True,
    among: int = 1,
    smallest: float | None = None,
    available: int | None = None,
) -> LeakComparisons:
    """Compare recipes, each under its strongest attack.

    Args:
        leaks: Recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all, controls
            left out ([seeds, 1] for a leak without classes).
        baseline: One of the recipes, or None.
        published: Attacks that were published; hiding is looked for where these are some and not all.
        level: Confidence level in (0, 1), of the intervals of a family together.
        span: The most that two leaks can differ by, which no interval leaves; None where nothing bounds them.
        every_pair: Also compare recipes of which none is the baseline.
        among: How many recipes are compared with the baseline in all, where that is more than are given here.
        smallest, available: As `needed.needed`.

    Raises InputError for an unknown baseline or published attack, recipes that were met by other attacks, or values
    that `comparisons` refuses.
    """
    cells, names = LeakCells.of(leaks, level=level), list(leaks)
    if baseline is not None and baseline not in leaks:
        raise InputError(f"baseline: expected one of {', '.join(leaks) or 'the recipes'}, got {baseline!r}")
    reference = None if baseline is None else names.index(baseline)
    unknown = [attack for attack in published if attack not in cells.attacks]
    if unknown:
        raise InputError(f"published: expected some of {', '.join(cells.attacks)}, got {', '.join(unknown)}")
    by_pair: dict[tuple[str, str], LeakComparison] = {}
    if reference is not None:
        beside = _with_baseline(cells, reference, published, span, among)
        undecided = {
            row: bounds
            for row, (comparison, bounds) in beside.items()
            if comparison.word == INCONCLUSIVE and comparison.low is not None
        }
        needs = needed(cells.cells, reference, undecided, level=level, smallest=smallest, available=available)
        by_pair = {
            (names[row], names[reference]): replace(comparison, needed=needs.get(row))
            for row, (comparison, _) in beside.items()
        }
    if every_pair:
        pairs = [(j, k) for j, k in combinations(range(len(names)), 2) if reference not in (j, k)]
        family = Bonferroni(comparisons=max(1, len(names) * (len(names) - 1) // 2))
        bounded = cells.all_bounded([cells.reduction(*pair) for pair in pairs], family=family, span=span)
        for (j, k), interval in zip(pairs, bounded, strict=True):
            by_pair[names[j], names[k]] = _word_comparison(cells, j, k, interval, family)
    return LeakComparisons(
        leaks={name: float(cells.leak(row, cells.best(row))) for row, name in enumerate(names)},
        baseline=baseline,
        by_pair=by_pair,
    )


def _with_baseline(
    cells: LeakCells, baseline: int, published: Sequence[str], span: float | None, among: int
) -> dict[int, tuple[LeakComparison, Bounded]]:
    """Every recipe beside the baseline, with what it hides where both kinds of attacks were tried."""
    recipes = len(cells.cells)
    others, family = [row for row in range(recipes) if row != baseline], against_baseline(recipes, among)
    bounded = cells.all_bounded([cells.reduction(row, baseline) for row in others], family=family, span=span)
    known = [cells.attacks.index(attack) for attack in dict.fromkeys(published)]
    hidden: Sequence[HiddenLeak | None] = [None] * len(others)
    if 0 < len(known) < len(cells.attacks):
        hidden = hidden_parts(cells, others, baseline, known, family=family, span=span)
    return {
        row: (_word_comparison(cells, row, baseline, interval, family, behind), interval)
        for row, interval, behind in zip(others, bounded, hidden, strict=True)
    }


def _word_comparison(
    cells: LeakCells,
    recipe: int,
    reference: int,
    interval: Bounded,
    family: Correction,
    hidden: HiddenLeak | None = None,
) -> LeakComparison:
    """The comparison of a pair with this interval."""
    return LeakComparison(
        word=_word(interval, hidden),
        reduction=interval.value,
        low=interval.low,
        high=interval.high,
        p=interval.p,
        comparisons=len(cells.attacks) * family.comparisons,
        attack=cells.attacks[cells.best(recipe)],
        attack_reference=cells.attacks[cells.best(reference)],
        seeds=cells.cells.shape[-2],
        classes=cells.cells.shape[-1],
        hidden=hidden,
    )


def _word(interval: Bounded, hidden: HiddenLeak | None) -> Word:
    if interval.above_zero:
        return REDUCES
    if interval.below_zero:
        return LEAKS_MORE
    return HIDES if hidden is not None and hidden.is_clear else INCONCLUSIVE


def _pair(recipe: str, reference: str, comparison: LeakComparison) -> Pair:
    """Recipe minus reference."""
    low, high = (None if end is None else -end for end in (comparison.high, comparison.low))
    return Pair(
        first=recipe,
        second=reference,
        difference=-comparison.reduction,
        low=low,
        high=high,
        verdict=turned(verdict(comparison.low, comparison.high, seeds=comparison.seeds)),
    )
