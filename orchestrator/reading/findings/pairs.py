"""Pairwise comparison of recipes: reductions, and which of them are statistically significant."""

from __future__ import annotations

from collections.abc import Sequence

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.findings.incomplete import incomplete_lines
from smoothsweep.orchestrator.reading.findings.uncertainty import p_words, sample_words
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.evidence import Evidence
from smoothsweep.orchestrator.reading.numbers.format import count, number
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import reduction_words

SIDE = 12
"""The most recipes that a matrix of numbers on a page can hold."""


def chosen_recipes(summary: Summary) -> list[str]:
    """The chosen recipe, its runners-up, the frontier and the baseline, by rising leak; at most `SIDE` recipes."""
    ranked, choice = (
        by_leak(summary.compared),
        summary.compared.recommendation,
    )
    if len(ranked) <= SIDE:
        return ranked
    first = {choice.best, summary.baseline_recipe}
    wanted = first | {*choice.runners_up, *decide(summary).front}
    chosen = sorted((recipe for recipe in ranked if recipe in wanted), key=lambda recipe: recipe not in first)[:SIDE]
    return [recipe for recipe in ranked if recipe in chosen]


def sheet_recipes(summary: Summary) -> list[str]:
    """The recipes that get a column of pictures: all where they are few, else those that a decision is about."""
    if len(summary.recipes) <= SIDE or summary.evidence is None:
        return summary.recipes
    return chosen_recipes(summary) if summary.evidence.pairs else summary.recipes[:SIDE]


def by_leak(evidence: Evidence) -> list[str]:
    """The compared recipes by rising leak."""
    return sorted(evidence.compared, key=lambda recipe: evidence.sign * evidence.mean(recipe))


def lead(summary: Summary) -> str:
    """Sentences on what the differences are and how they are corrected for multiple comparisons."""
    evidence, spec = summary.compared, metric_of(summary.deciding)
    level = f"{100 * summary.settings.level:g}{NBSP}%"
    attack = ", each under the attack that works best against it" if len(summary.attacks) > 1 else ""
    chosen = f" times {count(len(summary.attacks), 'attack')}" if len(summary.attacks) > 1 else ""
    unit = ", in percentage points" if spec.unit == "percent" else ""
    return (
        f"Reduction of the row against the column by the {spec.label}{unit}{attack}: positive where the row leaks "
        f"less. Paired by seed and class ({sample_words(summary, len(evidence.seeds))}). Bold: the interval leaves out "
        f"0. Hover for the interval. Those of pairs with the baseline are the verdicts' own; those of all other pairs "
        f"hold together at {level}, corrected for {count(evidence.pairs, 'pair')}{chosen} (Bonferroni)."
    )


def notes(summary: Summary, chosen: Sequence[str]) -> list[str]:
    """Sentences on recipes that the matrix leaves out, and on the limits of a single seed."""
    evidence, lines = summary.compared, []
    if len(chosen) < len(evidence.compared):
        lines.append("Shown: the choice, the recipes that may leak as little, the frontier and the baseline.")
    if len(evidence.seeds) == 1:
        lines.append("With one seed every pair is inconclusive: another training run may turn any difference round.")
    lines += incomplete_lines(summary)
    below = len(evidence.values) - len(evidence.compared)
    if below:
        floor = number(metric_of("test_acc"), summary.min_test_acc)
        lines.append(f"{count(below, 'recipe')} below {floor} test accuracy {'is' if below == 1 else 'are'} left out.")
    return lines


def words(summary: Summary, recipe: str, other: str) -> str:
    """The tooltip of a pair, such as `alpha -0.2 against alpha 0: +10.2 points [+4, +17], p = 0.01, reduces`."""
    gap = summary.compared.reduction(recipe, other)
    if gap is None:
        return f"{recipe} against {other}: not compared"
    sure = "" if gap.p is None else f", {p_words(gap.p)}"
    return f"{recipe} against {other}: {reduction_words(summary.spec, gap)}{sure}, {gap.word}"
