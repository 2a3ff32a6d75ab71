"""The leak of a recipe by the attacker's access level."""

from __future__ import annotations

from smoothsweep.orchestrator.reading.numbers.format import listing, named
from smoothsweep.orchestrator.reading.numbers.summary import Summary

SEES = {
    "none": "nothing of the target",
    "labels": "the decided class alone",
    "scores": "scores without gradients",
    "gradients": "gradients",
}
"""Access level -> what such an attacker sees."""


def by_access(summary: Summary, row: int) -> tuple[str, ...]:
    """One sentence on the leak of a row's recipe by access level; empty with a single level."""
    metric, levels = summary.primary, summary.access_levels
    if metric is None or len(levels) < 2:
        return ()
    recipe = summary.frame.loc[row, "recipe"]
    reached = {level: summary.worst(metric, level).get(recipe) for level in levels}
    parts = [f"{summary.value_text(at)} with {SEES[level]}" for level, at in reached.items() if at is not None]
    return (f"By what an attacker sees of {named(recipe)}: {listing(parts)}.",) if len(parts) > 1 else ()
