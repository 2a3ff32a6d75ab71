"""What a defense hides: leak that the published attacks lose and that an adapted attack still finds.

Beside the baseline's leak, in its unit:

* claimed: how much less the recipe leaks than the baseline under the published attack that works best against each;
* reduction: the same under the attack that works best against each of all attacks tried, adapted ones included;
* hidden: claimed minus reduction, what the published attacks miss because of gradient masking.

A stronger attack may lower a reduction, never raise it: it is an upper bound, named with its portfolio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.metrics.dunnett import Dunnett
from core.metrics.reduction import Bounded, Claim, LeakCells, Narrowest


@dataclass(frozen=True, kw_only=True)
class Hidden:
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
    cells: LeakCells, recipes: Sequence[int], baseline: int, published: Sequence[int], *, span: float | None
) -> list[tuple[Hidden, Narrowest | None]]:
    """The hidden part of each recipe, and the contrast that its lower end rests on.

    published: the numbers of the published attacks. span: the most that two leaks can differ by, None where nothing
    bounds them; a hidden part is a difference of two such differences.
    """
    claims = [_claim(cells, recipe, baseline, published) for recipe in recipes]
    correction = Dunnett(comparisons=len(cells.attacks) * len(published) * max(1, len(cells.cells) - 1))
    parts = cells.bounded(claims, correction=correction, span=None if span is None else 2 * span)
    known_there = cells.best(baseline, published)
    found = []
    for recipe, (part, behind) in zip(recipes, parts, strict=True):
        known = cells.best(recipe, published)
        claimed = float(cells.means[baseline, known_there] - cells.means[recipe, known])
        names = cells.attacks[known], cells.attacks[known_there]
        found.append((Hidden(claimed=claimed, part=part, published=names[0], published_baseline=names[1]), behind))
    return found


def _claim(cells: LeakCells, recipe: int, baseline: int, published: Sequence[int]) -> Claim:
    """Claimed minus the reduction, whichever attacks are the strongest."""
    every, means = range(len(cells.attacks)), cells.means
    best, best_there = cells.best(recipe), cells.best(baseline)
    known, known_there = cells.best(recipe, published), cells.best(baseline, published)
    claimed = means[baseline, known_there] - means[recipe, known]
    return Claim(
        value=float(claimed - (means[baseline, best_there] - means[recipe, best])),
        low=[
            ((recipe, best, 1), (recipe, p, -1), (baseline, known_there, 1), (baseline, a, -1))
            for p in published for a in every
        ],
        high=[
            ((recipe, a, 1), (recipe, known, -1), (baseline, p, 1), (baseline, best_there, -1))
            for p in published for a in every
        ],
    )  # fmt: skip
