"""Every recipe against every other: differences and which of them are no chance."""

from __future__ import annotations

from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.summary import Summary

SIDE = 12
"""Recipes that a matrix of numbers holds on a page."""





def chosen_recipes(summary: Summary) -> list[str]:
    """The choice, what cannot be told from it, the frontier and the baseline, by rising leak; at most `SIDE`."""
    evidence = summary.evidence
    known, choice = set(evidence.compared), evidence.recommendation
    first = [recipe for recipe in (choice.best, summary.baseline_recipe) if recipe in known]
    rest = sorted({*choice.runners_up, *decide(summary).front} & known - set(first),
                  key=lambda recipe: evidence.sign * evidence.mean(recipe))  # fmt: skip
    if len(known) <= SIDE:
        rest = sorted(known - set(first))
    chosen = [*first, *rest][:SIDE]
    return sorted(chosen, key=lambda recipe: (evidence.sign * evidence.mean(recipe), evidence.compared.index(recipe)))


def sheet_recipes(summary: Summary) -> list[str]:
    """The recipes that get a column of pictures: all of a few, else those that a decision is about."""
    if len(summary.recipes) <= SIDE or summary.evidence is None:
        return summary.recipes
    return chosen_recipes(summary) if summary.evidence.pairs else summary.recipes[:SIDE]




















