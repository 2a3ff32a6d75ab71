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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from core.errors import InputError
from core.metrics.comparisons import Comparisons, Pair
from core.metrics.dunnett import Bonferroni, Correction, Dunnett
from core.metrics.hiding import Hidden, hidden_parts
from core.metrics.reduction import Bounded, LeakCells, Leaks, Narrowest
from core.metrics.verdicts import INCONCLUSIVE, turned, verdict

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
        seeds_needed: With so many seeds, all else as it is, a word other than inconclusive would follow; None where it
            does, where more seeds alone would not settle it, and for pairs without the baseline.
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
    seeds_needed: int | None = None
    hidden: Hidden | None = None

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
            self, word=word, reduction=-self.reduction, low=low, high=high, attack=self.attack_reference,
            attack_reference=self.attack, seeds_needed=None, hidden=None,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LeakComparisons:
    """Every recipe beside the baseline, and every other pair where asked for.

    Attributes:
        leaks: Recipe -> mean leak under the attack that looks best against it.
        baseline: The recipe that the others are compared with first of all; None without one.
        by_pair: (recipe, reference) -> their comparison; each pair once.
        level: At which all intervals of a family hold together.
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
        return {recipe: one for (recipe, reference), one in self.by_pair.items() if reference == self.baseline}

    def against(self, recipe: str, reference: str) -> LeakComparison | None:
        """The comparison of two recipes; None where they were not compared."""
        found = self.by_pair.get((recipe, reference))
        back = self.by_pair.get((reference, recipe))
        return found if found is not None else None if back is None else back.turned

    @property
    def pairs(self) -> Comparisons:
        """The same as differences, first recipe minus second, for what is chosen by them."""
        pairs = tuple(_pair(*names, one) for names, one in self.by_pair.items())
        counted = max((one.comparisons for one in self.by_pair.values()), default=1)
        return Comparisons(
            means=dict(self.leaks), pairs=pairs, level=self.level, pair_level=1 - (1 - self.level) / counted,
            n_seeds=self.seeds, n_classes=self.classes,
        )  # fmt: skip


def compare_leaks(
    leaks: Leaks, *, baseline: str | None, published: Sequence[str] = (), level: float = 0.95,
    span: float | None = None, every_pair: bool = True,
) -> LeakComparisons:
    """Compare recipes, each under its strongest attack.

    leaks: recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all, controls
    left out ([seeds, 1] for a leak without classes). baseline: one of the recipes, or None. published: those of the
    attacks that were published; hiding is looked for where these are some and not all. level: in (0, 1), of the
    intervals of a family together. span: the most that two leaks can differ by, which no interval leaves; None where
    nothing bounds them. every_pair: also compare recipes of which none is the baseline.

    Raises InputError for an unknown baseline or published attack, recipes that were met by other attacks, or values
    that `comparisons` refuses.
    """
    cells, names = LeakCells.of(leaks, level=level), list(leaks)
    if baseline is not None and baseline not in leaks:
        raise InputError(f"baseline: expected one of {', '.join(leaks) or 'the recipes'}, got {baseline!r}")
    unknown = [attack for attack in published if attack not in cells.attacks]
    if unknown:
        raise InputError(f"published: expected some of {', '.join(cells.attacks)}, got {', '.join(unknown)}")
    found: dict[tuple[str, str], LeakComparison] = {}
    if baseline is not None:
        found |= _with_baseline(cells, names, names.index(baseline), published, span)
    pairs = [(j, k) for j, k in combinations(range(len(names)), 2) if baseline not in (names[j], names[k])]
    if every_pair:
        counted = len(cells.attacks) * len(names) * (len(names) - 1) // 2
        found |= _reductions(cells, names, pairs, Bonferroni(comparisons=max(1, counted)), span)
    return LeakComparisons(
        leaks={name: float(cells.means[row, cells.best(row)]) for row, name in enumerate(names)}, baseline=baseline,
        by_pair=found, level=level, seeds=cells.cells.shape[2], classes=cells.cells.shape[3],
    )  # fmt: skip


def _with_baseline(
    cells: LeakCells, names: Sequence[str], baseline: int, published: Sequence[str], span: float | None
) -> dict[tuple[str, str], LeakComparison]:
    """Every recipe beside the baseline, with what it hides where both kinds of attacks were tried."""
    others = [row for row in range(len(names)) if row != baseline]
    correction = Dunnett(comparisons=len(cells.attacks) * max(1, len(others)))
    pairs = [(row, baseline) for row in others]
    bounded = cells.bounded([cells.reduction(*pair) for pair in pairs], correction=correction, span=span)
    known = [cells.attacks.index(attack) for attack in dict.fromkeys(published)]
    both_kinds = 0 < len(known) < len(cells.attacks)
    hidden = hidden_parts(cells, others, baseline, known, span=span) if both_kinds else [(None, None)] * len(others)
    return {
        (names[row], names[baseline]): _told(cells, pair, *one, correction, *behind)
        for row, pair, one, behind in zip(others, pairs, bounded, hidden, strict=True)
    }


def _reductions(
    cells: LeakCells, names: Sequence[str], pairs: Iterable[tuple[int, int]], correction: Correction, span: float | None
) -> dict[tuple[str, str], LeakComparison]:
    pairs = list(pairs)
    bounded = cells.bounded([cells.reduction(*pair) for pair in pairs], correction=correction, span=span)
    told = (_told(cells, pair, one, None, correction) for pair, (one, _) in zip(pairs, bounded, strict=True))
    return {(names[j], names[k]): one for (j, k), one in zip(pairs, told, strict=True)}


def _told(
    cells: LeakCells, pair: tuple[int, int], found: Bounded, behind: Narrowest | None, correction: Correction,
    hidden: Hidden | None = None, behind_hidden: Narrowest | None = None,
) -> LeakComparison:
    """The comparison of a pair with this interval. behind: the contrasts that more seeds would settle; None where
    nothing asks for their number."""
    word, (recipe, reference) = _word(found, hidden), pair
    asked = [behind, behind_hidden if hidden is not None and hidden.part.value > 0 else None]
    needed = [cells.seeds_needed(one) for one in asked if one is not None] if word == INCONCLUSIVE else []
    return LeakComparison(
        word=word, reduction=found.value, low=found.low, high=found.high, p=found.p,
        comparisons=correction.comparisons, attack=cells.attacks[cells.best(recipe)],
        attack_reference=cells.attacks[cells.best(reference)], seeds=cells.cells.shape[2],
        classes=cells.cells.shape[3], seeds_needed=min((seeds for seeds in needed if seeds is not None), default=None),
        hidden=hidden,
    )  # fmt: skip


def _word(found: Bounded, hidden: Hidden | None) -> Word:
    if found.above_zero:
        return REDUCES
    if found.below_zero:
        return LEAKS_MORE
    return HIDES if hidden is not None and hidden.is_clear else INCONCLUSIVE


def _pair(recipe: str, reference: str, one: LeakComparison) -> Pair:
    """Recipe minus reference."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return Pair(
        first=recipe, second=reference, difference=-one.reduction, low=low, high=high, p=one.p, p_corrected=one.p,
        verdict=turned(verdict(one.low, one.high, seeds=one.seeds)),
    )  # fmt: skip
