"""What a sweep of several attacks says beside the worst of them: the leak by access level, and what controls reach."""

from __future__ import annotations

from orchestrator.reading.findings.sureness import named
from orchestrator.reading.numbers.evidence import worst_rows
from orchestrator.reading.numbers.format import listing
from orchestrator.reading.numbers.summary import Summary

SEES = {
    "none": "nothing of the target", "labels": "the decided class alone", "scores": "scores without gradients",
    "gradients": "gradients",
}  # fmt: skip


def by_access(summary: Summary, row: int) -> tuple[str, ...]:
    """One sentence on what attackers of each access level get of the recipe in this row; none with a single level."""
    metric, levels = summary.primary, summary.access_levels
    if metric is None or len(levels) < 2:
        return ()
    recipe = summary.frame.loc[row, "recipe"]
    reached = {level: worst_rows(summary.frame, metric, level).get(recipe) for level in levels}
    parts = [f"{summary.shown(at)} with {SEES[level]}" for level, at in reached.items() if at is not None]
    return (f"By what an attacker sees of {named(recipe)}: {listing(parts)}.",) if len(parts) > 1 else ()


def control_line(summary: Summary) -> tuple[str, ...]:
    """One sentence on the most that the judge credits to a control; none without controls."""
    metric = summary.primary
    found = summary.worst_of_control(metric) if metric else None
    if found is None:
        return ()
    attack, row = found
    return (
        f"What the judge credits to a control is no leak: {attack} reaches {summary.shown(row)} "
        f"at {named(summary.frame.loc[row, 'recipe'])}.",
    )
