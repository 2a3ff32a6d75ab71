"""Every recipe against every other: differences and which of them are no chance."""

from __future__ import annotations

from collections.abc import Sequence

from smoothsweep.core.metrics.table import metric_of
from smoothsweep.core.metrics.verdicts import CANNOT_TELL
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.findings.incomplete import incomplete_lines
from smoothsweep.orchestrator.reading.findings.uncertainty import gap_words, p_words, sample_words
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.evidence import Evidence
from smoothsweep.orchestrator.reading.numbers.format import count, number
from smoothsweep.orchestrator.reading.numbers.summary import Summary

SIDE = 12
"""Recipes that a matrix of numbers holds on a page."""


def chosen_recipes(summary: Summary) -> list[str]:
    """The choice, what cannot be told from it, the frontier and the baseline, by rising leak; at most `SIDE`."""
    ranked, choice = by_leak(summary.evidence), summary.evidence.recommendation
    if len(ranked) <= SIDE:
        return ranked
    first = {choice.best, summary.baseline_recipe}
    wanted = first | {*choice.runners_up, *decide(summary).front}
    chosen = sorted((recipe for recipe in ranked if recipe in wanted), key=lambda recipe: recipe not in first)[:SIDE]
    return [recipe for recipe in ranked if recipe in chosen]


def sheet_recipes(summary: Summary) -> list[str]:
    """The recipes that get a column of pictures: all of a few, else those that a decision is about."""
    if len(summary.recipes) <= SIDE or summary.evidence is None:
        return summary.recipes
    return chosen_recipes(summary) if summary.evidence.pairs else summary.recipes[:SIDE]


def by_leak(evidence: Evidence) -> list[str]:
    """The recipes that are compared, least leak first."""
    return sorted(evidence.compared, key=lambda recipe: evidence.sign * evidence.mean(recipe))


def lead(summary: Summary) -> str:
    """What the differences are and how they are corrected."""
    evidence, spec, level = summary.evidence, metric_of(summary.primary), f"{100 * summary.settings.level:g}{NBSP}%"
    attack = ", each under the attack that works best against it" if len(summary.attacks) > 1 else ""
    unit = ", in percentage points" if spec.unit == "percent" else ""
    return (
        f"Row minus column in leak by the {spec.label}{unit}{attack}, paired by seed and class "
        f"({sample_words(summary, len(evidence.seeds))}). Bold: clear after correction for all "
        f"{count(evidence.pairs, 'pair')}, so that the chance of even one false claim stays below "
        f"{100 * (1 - summary.settings.level):g}{NBSP}%. Hover for the interval, which holds for all pairs at once at "
        f"{level}."
    )


def notes(summary: Summary, chosen: Sequence[str]) -> list[str]:
    """Which recipes the matrix leaves out, and what one seed cannot tell."""
    evidence, lines = summary.evidence, []
    if len(chosen) < len(evidence.compared):
        lines.append("Shown: the choice, the recipes that it cannot be told from, the frontier and the baseline.")
    if len(evidence.seeds) == 1:
        lines.append("With one seed none can be told from another: another training run may turn any difference round.")
    lines += incomplete_lines(summary)
    below = len(evidence.values) - len(evidence.compared)
    if below:
        floor = number(metric_of("test_acc"), summary.min_test_acc)
        lines.append(f"{count(below, 'recipe')} below {floor} test accuracy {'is' if below == 1 else 'are'} left out.")
    return lines


def words(summary: Summary, recipe: str, other: str) -> str:
    """`alpha -0.2 against alpha 0: -10.2 points [-17, -4], p = 0.01, clear`."""
    gap = summary.evidence.against(recipe, other)
    sure = "" if gap.p is None else f", {p_words(gap.p)}"
    verdict = "cannot be told from chance" if gap.verdict == CANNOT_TELL else "clear"
    return f"{recipe} against {other}: {gap_words(summary, gap)}{sure}, {verdict}"
