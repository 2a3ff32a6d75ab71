"""What an audit answers round by round: a first answer, then wider ones that have all of the earlier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.audit.portfolio import MOST_SEEDS, Reach, portfolio
from smoothsweep.core.audit.references import AuditTraining

SEEDS = tuple(range(1, MOST_SEEDS + 1))
REACHES: tuple[Reach, ...] = ("quick", "adapted", "whole")
"""From the fewest attacks to all."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """seeds: of attacks and trainings; reach: which attacks; trainings: what is trained beside the model."""

    seeds: tuple[int, ...]
    reach: Reach
    trainings: tuple[AuditTraining, ...] = ()

    @property
    def further(self) -> Round | None:
        """The same with one seed more; None after the last."""
        return replace(self, seeds=SEEDS[: len(self.seeds) + 1]) if len(self.seeds) < len(SEEDS) else None

    def beyond(self, done: Round) -> Round:
        """All that either of the two has: what was answered before is never left out again."""
        added = tuple(one for one in self.trainings if one not in done.trainings)
        return Round(
            seeds=SEEDS[: max(len(self.seeds), len(done.seeds))],
            reach=max(self.reach, done.reach, key=REACHES.index),
            trainings=(*done.trainings, *added),
        )


FIRST = Round(seeds=SEEDS[:1], reach="quick")


def refinements(access: str, trainings: tuple[AuditTraining, ...] = (), *, seeds: int = 1) -> Iterator[Round]:
    """What comes after the first answer: what is trained beside the model, the seeds asked for, the slower attacks,
    more seeds."""
    reach: Reach = "adapted" if trainings else "quick"
    if trainings:
        yield Round(seeds=SEEDS[:1], reach=reach, trainings=trainings)
    for many in range(2, seeds + 1):
        yield Round(seeds=SEEDS[:many], reach=reach, trainings=trainings)
    if len(portfolio(access, whole=True)) > len(portfolio(access, whole=False, adapted=bool(trainings))):
        yield Round(seeds=SEEDS[:seeds], reach="whole", trainings=trainings)
    for many in range(seeds + 1, len(SEEDS) + 1):
        yield Round(seeds=SEEDS[:many], reach="whole", trainings=trainings)


def round_of(tree: dict[str, Any], access: str, wanted: Sequence[AuditTraining]) -> Round:
    """Which round a sweep file of an audit is: by its seeds, its kinds of attacks and losses, its recipes.

    Raises LookupError or TypeError for a file that is none.
    """
    many = {reach: len(portfolio(access, whole=reach == "whole", adapted=reach == "adapted")) for reach in REACHES}
    attacks = [attack for attack in tree["grid"]["attack"] if attack["kind"] in ATTACKS]
    reach = next(reach for reach in REACHES if many[reach] >= len(attacks) or reach == REACHES[-1])
    recipes = [cell["recipe"].get("defense") for cell in tree.get("cells", [])]
    trainings = tuple(one for one in wanted if any(_same(one.settings["defense"], found) for found in recipes))
    return Round(seeds=SEEDS[: len(tree["seeds"])], reach=reach, trainings=trainings)


def _same(settings: Any, found: Any) -> bool:
    return found is not None and {**settings} == found
