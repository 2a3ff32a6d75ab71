"""Sentences on a defense's curve, from its comparisons with the reference, and its cost in training time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import HIDES, LEAKS_MORE, REDUCES
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.reading.defenses.families import DefenseFamily, DefenseGroup, Point, Versus
from smoothsweep.orchestrator.reading.numbers.format import count, listing
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import (
    WORDING,
    accuracy_gap,
    accuracy_kept,
    margin_words,
    reduction_words,
)

COST = "seconds_target"
"""Column of the results that holds the seconds of a training."""


def family_sentence(
    summary: Summary, group: DefenseGroup, family: DefenseFamily, compared: Mapping[str, Versus]
) -> str:
    """Say where a family reduces the leak or leaks more, at which cost, and where the comparison is inconclusive.

    compared: `versus(summary, group)`.
    """
    measured = [point for point in family.points if point.recipe in compared]
    absent = [point for point in family.points if point.recipe not in compared]
    if not measured:
        return "No leak has been measured."
    if all(compared[point.recipe].leak is None for point in measured):
        parts = [f"Nothing to compare with at {_strengths(measured)}: no reference shares a seed."]
    else:
        gains, losses = (_clear(summary, group, measured, compared, gain=gain) for gain in (True, False))
        parts = [*gains, *losses, *_unclear(group, measured, compared)]
    return " ".join([*parts, *([f"Not compared, since trials are missing: {_strengths(absent)}."] if absent else [])])


def reference_words(group: DefenseGroup) -> str:
    """A sentence that names the reference of all differences."""
    plain = group.plain is not None and group.reference == group.plain.recipe
    return "plain training" if plain else f"the baseline ({group.reference})"


def _clear(
    summary: Summary, group: DefenseGroup, measured: Sequence[Point], compared: Mapping[str, Versus], *, gain: bool
) -> list[str]:
    """Sentences on the largest significant difference in one direction, and on the cheapest one."""
    wanted = REDUCES if gain else LEAKS_MORE
    compared_leaks = {point.recipe: compared[point.recipe].leak for point in measured}
    leaks = {recipe: gap for recipe, gap in compared_leaks.items() if gap is not None}
    clear = [point for point in measured if point.recipe in leaks and leaks[point.recipe].word == wanted]
    if not clear:
        return []
    largest = max(clear, key=lambda point: abs(leaks[point.recipe].reduction))
    sentences = [_sentence(summary, group, largest, compared[largest.recipe], gain=gain)]
    cheapest = max(clear, key=lambda point: compared[point.recipe].accuracy.difference)
    saved = compared[cheapest.recipe].accuracy.difference - compared[largest.recipe].accuracy.difference
    if gain and cheapest != largest and saved >= 0.005:
        sentences.append(_sentence(summary, group, cheapest, compared[cheapest.recipe], gain=gain, again=True))
        clear = [point for point in clear if point != cheapest]
    others = [point for point in clear if point != largest]
    if others:
        sentences.append(f"Smaller, in the same direction: {_strengths(others)}.")
    return sentences


def _sentence(
    summary: Summary, group: DefenseGroup, point: Point, gap: Versus, *, gain: bool, again: bool = False
) -> str:
    """`Reduces the leak against plain training at beta 0.01: +12.0 points [+6, +18]; test accuracy -3.4 points
    [-5, -2] (n = 3).`"""
    leak = present(gap.leak, "leak")
    size = reduction_words(metric_of(summary.deciding), leak)
    verb = WORDING[leak.word].as_verb.capitalize()
    first = f"{verb} {'against' if gain else 'than'} {reference_words(group)} at"
    if again:
        first = "The most accurate of these is"
    return f"{first} {point.words.strength}: {size}{_cost(summary, gap)} (n = {leak.seeds})."


def _cost(summary: Summary, gap: Versus) -> str:
    """A phrase such as `; test accuracy -3.4 points [-5.0, -1.8]`; `kept` only where the whole interval shows it."""
    if gap.accuracy.n == 0:
        return ", at an accuracy that was not measured"
    if accuracy_kept(gap.accuracy, summary.accuracy_margin):
        margin = margin_words(summary.accuracy_margin)
        return f", without a loss of {margin} of test accuracy ({accuracy_gap(gap.accuracy)})"
    return f"; test accuracy {accuracy_gap(gap.accuracy)}"


def _unclear(group: DefenseGroup, measured: Sequence[Point], compared: Mapping[str, Versus]) -> list[str]:
    """A sentence on the recipes whose comparison is inconclusive, which proves no equality."""
    compared_leaks = {point.recipe: compared[point.recipe].leak for point in measured}
    leaks = {recipe: gap for recipe, gap in compared_leaks.items() if gap is not None}
    known = [point for point in measured if point.recipe in leaks]
    alone = [point for point in measured if point.recipe not in leaks and point.recipe != group.reference]
    parts = []
    for word, first in ((HIDES, "Hides the leak from published attacks"), (INCONCLUSIVE, "Inconclusive")):
        points_of = [point for point in known if leaks[point.recipe].word == word]
        if points_of:
            seeds = sorted({leaks[point.recipe].seeds for point in points_of})
            sample = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {count(seeds[-1], 'seed')}"
            parts.append(f"{first}, against {reference_words(group)} with {sample}: {_strengths(points_of)}.")
    if alone:
        parts.append(f"Without a seed in common with {reference_words(group)}: {_strengths(alone)}.")
    return parts


def _strengths(chosen: Sequence[Point]) -> str:
    return listing(point.words.strength for point in chosen)


def training_costs(data: ReportData, summary: Summary, group: DefenseGroup) -> dict[str, tuple[float, float, float]]:
    """Recipe -> its training time relative to plain training: geometric mean over common seeds, smallest, largest.

    From the column `seconds_target` of the results, where it is there; one training serves several attacks and counts
    once. Empty without plain training to compare with.
    """
    if COST not in data.results or group.plain is None:
        return {}
    by_trial = data.results.drop_duplicates("trial").set_index("trial")
    spent = {}
    for point in group.points:
        mine = summary.frame.loc[summary.frame["recipe"] == point.recipe, "trials"]
        known = by_trial.loc[[trial for trials in mine for trial in trials], ["seed", COST]].dropna()
        spent[point.recipe] = known[known[COST] > 0].groupby("seed")[COST].min()
    base = spent[group.plain.recipe]
    costs_of_points = {}
    for recipe, seconds in spent.items():
        ratios = (seconds.astype(float) / base.astype(float)).dropna()
        if len(ratios):
            costs_of_points[recipe] = (float(np.exp(np.log(ratios).mean())), float(ratios.min()), float(ratios.max()))
    return costs_of_points
