"""Which recipes can be compared: those that have met the same attacks under the same seeds.

A recipe counts with the attack that works best against it. While one of its attacks is missing, its strongest attack is
unknown, and its leak looks smaller than it is. So an incomplete recipe is compared with no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smoothsweep.core.metrics.verdicts import LEAST_SEEDS

MOST = 0.75
"""A seed counts where at least this fraction of recipes has it, so that one failed trial does not cost all of them."""

Met = Mapping[str, Mapping[str, Collection[int]]]
"""Recipe -> attack -> the seeds under which the leak was measured."""


@dataclass(frozen=True, kw_only=True)
class CompleteCases:
    """What all compared recipes share.

    Attributes:
        attacks: Every attack that at least one recipe has met, in order of appearance.
        seeds: The seeds under which every complete recipe has met every attack, rising; empty without a complete
            recipe.
        unused: Seeds that some recipe has and that do not count, since too few recipes have them under every attack.
        recipes: The complete recipes, in the order given.
        missing: Incomplete recipe -> attack -> the seeds that it lacks there, rising; all seeds of the sweep where no
            recipe is complete.
    """

    attacks: tuple[str, ...]
    seeds: tuple[int, ...]
    recipes: tuple[str, ...]
    missing: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    unused: tuple[int, ...] = ()


def complete_cases(met: Met, *, baseline: str | None = None, front: Sequence[str] = ()) -> CompleteCases:
    """Choose attacks, seeds and recipes such that every chosen recipe has met every chosen attack under every seed.

    An attack that any recipe has met is never dropped, since it may be the strongest against the others. A seed is
    dropped where fewer than `MOST` of the recipes have it, or where the baseline lacks it. It is also dropped where the
    recipe in front lacks it, if two seeds or more remain: the recipe that a reader would choose should be compared.

    Args:
        met: Every recipe of the sweep, those without any measurement included.
        baseline: The recipe that the others are compared with, None without one.
        front: The recipes by rising leak, as far as it is known.
    """
    attacks = tuple(dict.fromkeys(attack for under in met.values() for attack, seeds in under.items() if seeds))
    known = sorted({seed for under in met.values() for seeds in under.values() for seed in seeds})
    whole = {recipe: _under_all(under, attacks) for recipe, under in met.items()}
    able = {recipe: seeds for recipe, seeds in whole.items() if seeds}
    needed = {recipe for recipe in able if recipe == baseline}
    first = [recipe for recipe in front if recipe in able][:1]
    seeds = shared_seeds(able, needed=needed.union(first))
    if len(seeds) < LEAST_SEEDS:
        seeds = shared_seeds(able, needed=needed)
    recipes = tuple(recipe for recipe, mine in able.items() if set(seeds) <= mine)
    wanted = seeds or tuple(known)
    missing = {
        recipe: {
            attack: lacking
            for attack in attacks
            if (lacking := tuple(seed for seed in wanted if seed not in under.get(attack, ())))
        }
        for recipe, under in met.items()
        if recipe not in recipes
    }
    unused = tuple(seed for seed in known if seed not in wanted)
    return CompleteCases(attacks=attacks, seeds=seeds, recipes=recipes, missing=missing, unused=unused)


def shared_seeds(seeds: Mapping[str, Collection[int]], *, needed: Collection[str] = ()) -> tuple[int, ...]:
    """As many seeds as most recipes share, rising.

    seeds: recipe -> its seeds. needed: recipes that must have every seed that is chosen.
    """
    everything: set[int] = set().union(*seeds.values())
    usable = [seed for seed in everything if all(seed in seeds[recipe] for recipe in needed)]
    count = {seed: sum(seed in mine for mine in seeds.values()) for seed in usable}
    by_count = sorted(count, key=lambda seed: (-count[seed], seed))
    chosen: tuple[int, ...] = tuple(by_count[:1])
    for many in range(2, len(by_count) + 1):
        kept = [recipe for recipe, mine in seeds.items() if set(by_count[:many]) <= set(mine)]
        if len(kept) >= MOST * len(seeds):
            chosen = tuple(sorted(by_count[:many]))
    return chosen


def _under_all(under: Mapping[str, Collection[int]], attacks: Iterable[str]) -> set[int]:
    """The seeds that a recipe has under every attack."""
    seeds_of_attacks = [set(under.get(attack, ())) for attack in attacks]
    return set.intersection(*seeds_of_attacks) if seeds_of_attacks else set()
