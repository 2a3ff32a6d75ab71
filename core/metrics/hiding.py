"""Does a defense remove what a model tells of its people, or does it only hide it from the attacks that were published?

Two numbers per recipe, beside the baseline's, in the unit of the leak:

* claimed: how much less the recipe leaks than the baseline under the published attack that works best against each;
* removed: the same under the attack that works best against each of all attacks tried, adaptive ones included;
* hidden: claimed minus removed, what the published attacks miss because of gradient masking.

A stronger attack may lower what counts as removed, never raise it: it is an upper bound, named with its portfolio.

How the choice of the strongest attack is paid for is said in `reduction`. "Removes" is said falsely in at most
(1 - level) / 2 of all sweeps, whatever the number of recipes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.needed import Needed, needed
from smoothsweep.core.metrics.reduction import Bounded, Claim, LeakCells

Hiding = Literal["removes", "hides", "removes and hides", "leaks more", "cannot tell"]

@dataclass(frozen=True, kw_only=True)
class HidingVerdict:
    """What a recipe does to the leak. strongest: the attack that looks best against it, strongest_baseline against the
    baseline; published and published_baseline the same among the published ones. needed: how much would settle what is
    removed; None where the word is clear, for one seed, and for a difference that is too small to matter.
    """

    word: Hiding
    claimed: float
    removed: Bounded
    hidden: Bounded
    strongest: str
    strongest_baseline: str
    published: str
    published_baseline: str
    needed: Needed | None = None


def hides_or_removes(
    leaks: Mapping[str, Mapping[str, ArrayLike]], *, baseline: str, published: Sequence[str], level: float = 0.95,
    span: float | None = None, among: int = 1, smallest: float | None = None, available: int | None = None,
) -> dict[str, HidingVerdict]:
    """Recipe -> its verdict against the baseline, for all recipes but the baseline.

    leaks: recipe -> attack -> [seeds, classes], large is bad; the same attacks, seeds and classes for all, controls
    left out ([seeds, 1] for a leak without classes). published: those of the attacks that were published; level: in
    (0, 1), of the intervals of all recipes together. span: the most that two leaks can differ by, which no interval of
    what is removed leaves (nor twice it one of what is hidden); None where nothing bounds them. among: how many recipes
    are compared with the baseline in all, where that is more than are given here. smallest, available: as
    `needed.needed`.

    Raises InputError for an unknown baseline or published attack, no
    published attack, recipes that were met by other attacks, or values that `comparisons` refuses.
    """
    cells = LeakCells.of(leaks, baseline=baseline, level=level, among=among)
    unknown = [attack for attack in published if attack not in cells.attacks]
    if unknown or not published:
        raise InputError(f"published: expected some of {', '.join(cells.attacks)}, got {', '.join(unknown) or 'none'}")
    known = [cells.attacks.index(attack) for attack in dict.fromkeys(published)]
    verdicts = [
        _verdict(cells, number, known, span) if recipe != baseline else None for number, recipe in enumerate(leaks)
    ]
    undecided = {
        number: one.removed for number, one in enumerate(verdicts)
        if one is not None and one.word == "cannot tell" and one.removed.low is not None
    }  # fmt: skip
    needs = needed(cells.cells, cells.baseline, undecided, level=level, smallest=smallest, available=available)
    told = zip(leaks, enumerate(verdicts), strict=True)
    return {recipe: replace(one, needed=needs.get(number)) for recipe, (number, one) in told if one is not None}


def hidden_by(cells: LeakCells, recipe: int, published: Sequence[int]) -> Claim:
    """Claimed minus removed, for numbers of a recipe and of the published attacks."""
    baseline, every = cells.baseline, np.eye(len(cells.attacks))
    best, best_there = cells.best(recipe), cells.best(baseline)
    known, known_there = cells.best(recipe, published), cells.best(baseline, published)
    one = cells.one
    # Every published attack beside every attack.
    p, a = (each.reshape(-1, len(every)) for each in np.broadcast_arrays(every[list(published)][:, None], every[None]))
    claimed = cells.leak(baseline, known_there) - cells.leak(recipe, known)
    return Claim(
        value=claimed - cells.removed(recipe).value,
        low=cells.weights(recipe, of_recipe=one(best) - p, of_baseline=one(known_there) - a),
        high=cells.weights(recipe, of_recipe=a - one(known), of_baseline=p - one(best_there)),
        looked_at=len(every) * len(published),
    )


def _verdict(cells: LeakCells, recipe: int, published: Sequence[int], span: float | None) -> HidingVerdict:
    baseline = cells.baseline
    best, best_there = cells.best(recipe), cells.best(baseline)
    known, known_there = cells.best(recipe, published), cells.best(baseline, published)
    claimed = float(cells.leak(baseline, known_there) - cells.leak(recipe, known))
    removed = cells.bounded(cells.removed(recipe), span=span)
    hidden = cells.bounded(hidden_by(cells, recipe, published), span=None if span is None else 2 * span)
    return HidingVerdict(
        word=_word(removed, hidden), claimed=claimed, removed=removed, hidden=hidden,
        strongest=cells.attacks[best], strongest_baseline=cells.attacks[best_there],
        published=cells.attacks[known], published_baseline=cells.attacks[known_there],
    )  # fmt: skip


def _word(removed: Bounded, hidden: Bounded) -> Hiding:
    if removed.below_zero:
        return "leaks more"
    if removed.above_zero:
        return "removes and hides" if hidden.above_zero else "removes"
    return "hides" if hidden.above_zero else "cannot tell"
