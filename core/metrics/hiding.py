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

import numpy as np

from smoothsweep.core.metrics.dunnett import Dunnett
from smoothsweep.core.metrics.reduction import Bounded, Claim, LeakCells


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


def hidden_claim(cells: LeakCells, recipe: int, baseline: int, published: Sequence[int]) -> Claim:
    """Claimed minus the reduction, for numbers of a recipe, its baseline and the published attacks."""
    every, both = np.eye(len(cells.attacks)), (recipe, baseline)
    best, best_there = cells.best(recipe), cells.best(baseline)
    known, known_there = cells.best(recipe, published), cells.best(baseline, published)
    weights_of = cells.single_attack
    # Every published attack beside every attack.
    p, a = (each.reshape(-1, len(every)) for each in np.broadcast_arrays(every[list(published)][:, None], every[None]))
    claimed = cells.leak(baseline, known_there) - cells.leak(recipe, known)
    return Claim(
        value=claimed - cells.reduction(*both).value,
        low=cells.weights(*both, of_recipe=weights_of(best) - p, of_reference=weights_of(known_there) - a),
        high=cells.weights(*both, of_recipe=a - weights_of(known), of_reference=p - weights_of(best_there)),
        looked_at=len(every) * len(published),
    )
