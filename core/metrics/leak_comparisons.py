"""The one comparison of leaks: every output shows what `compare_leaks` finds, and none computes another.

A *reduction* is the leak of a reference minus the leak of a recipe, each under the attack that works best against it.
It is positive where the recipe leaks less. Four words say what its interval allows:

* reduces: the whole interval lies above zero;
* leaks more: the whole interval lies below zero;
* hides: neither, and the published attacks clearly lose leak that an adapted attack still finds;
* inconclusive: neither, and nothing is clearly hidden.

Comparisons with the baseline are one family, under Dunnett's quantile for all recipes beside it; "reduces" is said
falsely in at most (1 - level) / 2 of all sweeps, whatever the number of recipes. All other pairs are under Bonferroni's
correction for every pair. Either counts the attacks that the strongest was chosen from, see `reduction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import Comparisons, Pair
from smoothsweep.core.metrics.dunnett import Bonferroni, Correction
from smoothsweep.core.metrics.hiding import HiddenLeak, hidden_parts
from smoothsweep.core.metrics.needed import Needed, needed
from smoothsweep.core.metrics.reduction import Bounded, LeakCells, Leaks, against_baseline, number_of
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, turned, verdict

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
        level: Confidence level at which all intervals of a family hold together.
        seeds: How many each recipe has.
        classes: How many each seed has.
    """

    leaks: Mapping[str, float]
    baseline: str | None
    by_pair: Mapping[tuple[str, str], LeakComparison]
    level: float
    seeds: int
    classes: int

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
        counted = max((comparison.comparisons for comparison in self.by_pair.values()), default=1)
        return Comparisons(
            means=dict(self.leaks),
            pairs=pairs,
            level=self.level,
            pair_level=1 - (1 - self.level) / counted,
            n_seeds=self.seeds,
            n_classes=self.classes,
        )


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
    reference = None if baseline is None else number_of(baseline, leaks)
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
        level=level,
        seeds=cells.cells.shape[-2],
        classes=cells.cells.shape[-1],
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
        p=comparison.p,
        p_corrected=comparison.p,
        verdict=turned(verdict(comparison.low, comparison.high, seeds=comparison.seeds)),
    )
