"""The accuracy-leak frontier in one picture: every recipe at its worst, what no other beats, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from core.metrics.frontier import hypervolume
from core.metrics.table import metric_of
from core.words import NBSP
from orchestrator.reading.findings.shown import MANY
from orchestrator.reading.findings.sureness import named
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import count, listing, number, significant
from orchestrator.reading.numbers.summary import Summary

REFERENCE_ACC, REFERENCE_RATE = 0.0, 1.0
"""The reference point of hit rates: no accuracy at all, everything recognised. The same for every sweep, so that
hypervolumes of sweeps with one judge and one attack compare."""


@dataclass(frozen=True, kw_only=True)
class Covered:
    """What the frontier covers of the plane. area: in accuracy times leak. reference: (accuracy, leak)."""

    area: float
    reference: tuple[float, float]


def covered(summary: Summary) -> Covered | None:
    """Hypervolume of the recipes on the frontier; None without one."""
    front = decide(summary).front
    if not front:
        return None
    spec, rows = metric_of(summary.primary), summary.evidence.rows
    worst = summary.frame.loc[list(rows.values()), summary.primary]
    least = REFERENCE_RATE if spec.unit == "percent" else float(worst.max() if spec.better == "low" else worst.min())
    points = [[summary.frame.loc[rows[recipe], key] for key in ("test_acc", summary.primary)] for recipe in front]
    directions = ("max", "min" if spec.better == "low" else "max")
    area = hypervolume(points, (REFERENCE_ACC, least), directions)
    return Covered(area=area, reference=(REFERENCE_ACC, least))


def frontier_words(summary: Summary) -> str:
    """What the frontier holds and covers, below the figure."""
    front, area = decide(summary).front, covered(summary)
    if area is None:
        return ""
    spec = metric_of(summary.primary)
    size = f"{100 * area.area:.1f}{NBSP}% of the plane" if spec.unit == "percent" else significant(area.area)
    shown = [named(recipe) for recipe in front[:MANY]]
    rest = [f"{count(len(front) - MANY, 'other')}"] if len(front) > MANY else []
    asked = ""
    if summary.min_test_acc is not None:
        asked = f" Only recipes with the {number(metric_of('test_acc'), summary.min_test_acc)} asked for count."
    accuracy, leak = (
        number(metric_of(key), end, rough=True)
        for key, end in zip(("test_acc", spec.key), area.reference, strict=True)
    )
    return (
        f"The line is the frontier: {listing([*shown, *rest])}; no other recipe beats "
        f"{'it' if len(front) == 1 else 'these'} in both.{asked} Hypervolume: {size}, the shaded part, measured from "
        f"{accuracy} accuracy and {leak} leak. Bars are intervals (an arrow head: the bar leaves the panel). "
        "Hover over a point for its numbers; select it for its row of the table."
    )


