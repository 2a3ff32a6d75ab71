"""Checked again with fresh seeds: how much the choice flattered the recipes it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from smoothsweep.core.metrics.recommendation import Reaudit, reaudit
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE
from smoothsweep.orchestrator.reading.findings.uncertainty import named, start
from smoothsweep.orchestrator.reading.numbers.estimates import Seeds, rates
from smoothsweep.orchestrator.reading.numbers.format import count, difference, number
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary, summarise


@dataclass(frozen=True, kw_only=True)
class Checked:
    """recipes: recipe -> first against fresh audit, in the metric's own unit. together: their average. seeds: the
    fresh ones. classes: whether they were paired by class."""

    recipes: dict[str, Reaudit]
    together: Reaudit | None
    seeds: tuple[int, ...]
    by_class: bool


def checked(data: ReportData, summary: Summary) -> Checked | None:
    """The recipes audited again; None where there are none (yet)."""
    if data.fresh is None or not len(data.fresh) or summary.evidence is None:
        return None
    again = summarise(
        replace(data, results=data.fresh, fresh=None, search=None, paper=None), **asdict(summary.settings)
    )
    metric, first = summary.primary, summary.evidence.rows
    if metric not in again.measured:
        return None
    fresh = {recipe: row for recipe, row in again.worst(metric).items() if recipe in first}
    pairs = {
        recipe: _matrices(summary.samples[first[recipe]][metric], again.samples[row][metric])
        for recipe, row in fresh.items()
    }
    if not pairs:
        return None
    seeds = sorted({seed for row in fresh.values() for seed in again.samples[row][metric]})
    return Checked(
        recipes={recipe: reaudit(*pair, level=summary.settings.level) for recipe, pair in pairs.items()},
        together=_together(list(pairs.values()), summary.settings.level),
        seeds=tuple(seeds),
        by_class=all(before.shape[1] > 1 for before, _ in pairs.values()),
    )


def fresh_words(summary: Summary, found: Checked) -> list[str]:
    """What the second audit says of the choice, and of the frontier as a whole."""
    spec, best, lines = summary.spec, summary.compared.recommendation.best, []
    if best in found.recipes:
        one = found.recipes[best]
        lines.append(
            f"{start(named(best))} leaks {number(spec, one.fresh)} with fresh seeds, {number(spec, one.selected)} "
            f"when it was chosen: {difference(spec, one.bias, one.low, one.high)}, {meaning(summary, one)}."
        )
    if found.together is not None and len(found.recipes) > 1:
        one, many = found.together, count(len(found.recipes), "recipe")
        shown = difference(spec, one.bias, one.low, one.high)
        lines.append(f"Over the {many} checked, selection bias is {shown} on average, {meaning(summary, one)}.")
    return lines


def fresh_answer(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """The same for the head of the page, in one sentence; none without a second audit of the choice."""
    found = checked(data, summary)
    if found is None or summary.compared.recommendation.best not in found.recipes:
        return ()
    return (f"Checked again: {fresh_words(summary, found)[0]}",)


def meaning(summary: Summary, one: Reaudit) -> str:
    if one.low is None:
        return "inconclusive: one seed says nothing of chance"
    if one.verdict == INCONCLUSIVE:
        return "inconclusive: no more than chance explains"
    flattered = (one.verdict == HIGHER) == (summary.compared.sign > 0)
    return "the first audit flattered it" if flattered else "the first audit was too harsh"


def _matrices(first: Seeds, fresh: Seeds) -> tuple[np.ndarray, np.ndarray]:
    """[seeds, classes] of either audit, see `rates`."""
    both, _ = rates([*first.values(), *fresh.values()])
    return both[: len(first)], both[len(first) :]


def _together(pairs: Sequence[tuple[np.ndarray, np.ndarray]], level: float) -> Reaudit | None:
    """The average over the recipes, where all were audited with the same seeds and classes."""
    if len({(before.shape, after.shape) for before, after in pairs}) != 1:
        return None
    before, after = (np.mean([pair[side] for pair in pairs], axis=0) for side in (0, 1))
    return reaudit(before, after, level=level)
