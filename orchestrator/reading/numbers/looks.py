"""Find the look at which each recipe was decided, and its comparison there, from the finished trials alone.

Every recipe that is still open is compared with the baseline over the look's own seeds, at the look's own error. One
that is settled there keeps that answer, whatever further seeds the store has of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.looks import settled
from smoothsweep.core.metrics.reduction import Bounded, reductions
from smoothsweep.orchestrator.reading.numbers.cells import AttackedCells, CompleteCases
from smoothsweep.sweeps.limits import SeedLooks

Answer = Literal["told", "small", "open", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The last look at a recipe so far.

    Attributes:
        look: Its number, from 1.
        answer: "told" (the interval of its reduction leaves out 0), "small" (it lies within the smallest difference of
            interest), "open" (neither, and further looks follow) or "undecided" (neither, at the last).
        error: The error that this look spends, for all recipes together.
        alpha: The error of all looks.
        among: How many recipes are compared with the baseline.
        cases: What was compared here.
    """

    look: int
    answer: Answer
    error: float
    alpha: float
    among: int
    reduction: Bounded
    cases: CompleteCases

    @property
    def repeated(self) -> Bounded:
        """The reduction with a p-value that all looks share: at most alpha where the interval leaves out 0."""
        if self.reduction.p is None:
            return self.reduction
        return replace(self.reduction, p=min(1.0, self.reduction.p * self.alpha / self.error))

    @property
    def seeds(self) -> int:
        """How many seeds the answer rests on."""
        return len(self.cases.seeds)


def stops(cells: AttackedCells, metric: str, looks: SeedLooks, baseline: str | None) -> dict[str, Stop]:
    """Recipe -> its last look; none for a recipe that lacks seeds or attacks of the first look, nor where the baseline
    does. cells: with all the samples there are."""
    met = cells.met(metric)
    attacks = tuple(dict.fromkeys(attack for under in met.values() for attack, seeds in under.items() if seeds))
    by_recipe: dict[str, Stop] = {}
    pending = [recipe for recipe in met if recipe != baseline]
    among = len(pending)
    for number, error in enumerate(looks.design.errors):
        seeds = looks.of_look(number)
        able = [recipe for recipe in (baseline, *pending) if recipe in met and _has(met[recipe], attacks, seeds)]
        if baseline not in able or len(able) < 2:
            break
        cases = CompleteCases(attacks=attacks, seeds=seeds, recipes=tuple(able))
        estimates = reductions(
            cells.leaks_of(metric, cases),
            baseline=present(baseline, "baseline"),
            level=1 - error,
            span=metric_of(metric).span,
            among=among,
        )
        is_last = number + 1 == len(looks.looks)
        for recipe, estimate in estimates.items():
            by_recipe[recipe] = Stop(
                look=number + 1,
                answer=_answer(estimate, looks.smallest, is_last=is_last),
                error=error,
                alpha=looks.alpha,
                among=among,
                reduction=estimate,
                cases=cases,
            )
        pending = [recipe for recipe in able if recipe != baseline and by_recipe[recipe].answer == "open"]
    return by_recipe


def _has(under: Mapping[str, set[int]], attacks: tuple[str, ...], seeds: tuple[int, ...]) -> bool:
    return all(set(seeds) <= under.get(attack, set()) for attack in attacks)


def _answer(interval: Bounded, smallest: float, *, is_last: bool) -> Answer:
    if interval.above_zero or interval.below_zero:
        return "told"
    if (
        interval.low is not None
        and interval.high is not None
        and settled(interval.low, interval.high, smallest=smallest)
    ):
        return "small"
    return "undecided" if is_last else "open"
