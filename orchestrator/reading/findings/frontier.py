"""The accuracy-leak frontier: its hypervolume, and the sentences below its figure."""

from __future__ import annotations

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.frontier import hypervolume
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.findings.display import MANY
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named, number, significant
from smoothsweep.orchestrator.reading.numbers.summary import Summary

REFERENCE_ACC, REFERENCE_RATE = 0.0, 1.0
"""The reference point of the hypervolume for hit rates: accuracy 0, leak 1.

It is the same for every sweep, so that hypervolumes by the same judge and attack can be compared.
"""


def covered(summary: Summary) -> tuple[float, float] | None:
    """The hypervolume of the frontier (accuracy times leak) and the leak of its reference point; None without one."""
    front = decide(summary).front
    if not front:
        return None
    spec, rows = summary.spec, summary.compared.rows
    worst = summary.frame.loc[list(rows.values()), spec.key]
    corner = REFERENCE_RATE if spec.unit == "percent" else float(worst.max() if spec.better == "low" else worst.min())
    points = summary.frame.loc[[rows[recipe] for recipe in front], ["test_acc", spec.key]]
    directions = ("max", "min" if spec.better == "low" else "max")
    return hypervolume(points, (REFERENCE_ACC, corner), directions), corner


def frontier_words(summary: Summary) -> str:
    """The sentences below the figure: the recipes on the frontier and its hypervolume."""
    front, area_and_corner, spec = decide(summary).front, covered(summary), summary.spec
    if area_and_corner is None:
        return ""
    area, corner = area_and_corner
    size = f"{100 * area:.1f}{NBSP}% of the plane" if spec.unit == "percent" else significant(area)
    rest = [count(len(front) - MANY, "other")] if len(front) > MANY else []
    names = listing([*map(named, front[:MANY]), *rest])
    accuracy_note = ""
    if summary.min_test_acc is not None:
        accuracy_note = f" Only recipes with the {number(metric_of('test_acc'), summary.min_test_acc)} asked for count."
    accuracy, leak = number(metric_of("test_acc"), REFERENCE_ACC, rough=True), number(spec, corner, rough=True)
    return (
        f"The line is the frontier: {names}; no other recipe beats {'it' if len(front) == 1 else 'these'} in both."
        f"{accuracy_note} Hypervolume: {size}, the shaded part, measured from {accuracy} accuracy and {leak} "
        "leak. Bars are intervals (an arrow head: the bar leaves the panel). Hover over a point for its numbers; "
        "select it for its row of the table."
    )
