"""What an audit answers round by round: a first answer, then wider ones that have all of the earlier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.audit.portfolio import MOST_SEEDS, Reach, portfolio
from smoothsweep.core.audit.references import Beside

SEEDS = tuple(range(1, MOST_SEEDS + 1))
REACHES: tuple[Reach, ...] = ("quick", "adapted", "whole")
"""From the fewest attacks to all."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """seeds: of attacks and trainings; reach: which attacks; beside: what is trained beside the model."""

    seeds: tuple[int, ...]
    reach: Reach
    beside: tuple[Beside, ...] = ()

    @property
    def further(self) -> Round | None:
        """The same with one seed more; None after the last."""
        return replace(self, seeds=SEEDS[: len(self.seeds) + 1]) if len(self.seeds) < len(SEEDS) else None

    def beyond(self, done: Round) -> Round:
        """All that either of the two has: what was answered before is never left out again."""
        added = tuple(one for one in self.beside if one not in done.beside)
        return Round(
            seeds=SEEDS[: max(len(self.seeds), len(done.seeds))],
            reach=max(self.reach, done.reach, key=REACHES.index),
            beside=(*done.beside, *added),
        )


FIRST = Round(seeds=SEEDS[:1], reach="quick")


def refinements(access: str, beside: tuple[Beside, ...] = (), *, seeds: int = 1) -> Iterator[Round]:
    """What comes after the first answer: what is trained beside the model, the seeds asked for, the slower attacks,
    more seeds."""
    reach: Reach = "adapted" if beside else "quick"
    if beside:
        yield Round(seeds=SEEDS[:1], reach=reach, beside=beside)
    for many in range(2, seeds + 1):
        yield Round(seeds=SEEDS[:many], reach=reach, beside=beside)
    if len(portfolio(access, whole=True)) > len(portfolio(access, whole=False, adapted=bool(beside))):
        yield Round(seeds=SEEDS[:seeds], reach="whole", beside=beside)
    for many in range(seeds + 1, len(SEEDS) + 1):
        yield Round(seeds=SEEDS[:many], reach="whole", beside=beside)


def round_of(tree: dict[str, Any], access: str, wanted: Sequence[Beside]) -> Round:
    """Which round a sweep file of an audit is: by its seeds, its attacks, its recipes. Attacks that an earlier version
    tried otherwise, or in an earlier round, are of the widest.

    Raises LookupError or TypeError for a file that is none.
    """
    every = {reach: portfolio(access, whole=reach == "whole", adapted=reach == "adapted") for reach in REACHES}
    attacks = [attack for attack in tree["grid"]["attack"] if attack["kind"] in ATTACKS]
    reach = next((reach for reach in REACHES if all(attack in every[reach] for attack in attacks)), REACHES[-1])
    recipes = [cell["recipe"].get("defense") for cell in tree.get("cells", [])]
    beside = tuple(one for one in wanted if any(_same(one.settings["defense"], found) for found in recipes))
    return Round(seeds=SEEDS[: len(tree["seeds"])], reach=reach, beside=beside)


def _same(settings: Any, found: Any) -> bool:
    return found is not None and {**settings} == found
