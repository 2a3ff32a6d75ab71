"""The change of the leak by smoothing, relative to plain training (the paper's Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.reading.numbers.format import axis_value, is_null
from smoothsweep.orchestrator.reading.numbers.model import Axis
from smoothsweep.orchestrator.reading.numbers.summary import Summary

JUDGED = ("attack_acc1", "embedder_acc1", "xi_train", "dist_face", "dist_eval")
"""Leaks whose change is shown, where they were measured."""
ALPHA, SAMPLES = "alpha", "samples_per_class"
LEAST = 3  # factors, or two sizes of a training set, that make a curve


@dataclass(frozen=True, kw_only=True)
class AdvantagePoint:
    """A point of the figure on the attacker's advantage.

    Attributes:
        x: A smoothing factor, or a number of images per class.
        value, low, high: The attacker's relative gain over plain training, positive where more leaks; of a distance, by
            how much it shrank. low and high are NaN without an interval, and hold the plain value fixed.
    """

    x: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class AdvantagePanel:
    """Curves over one quantity.

    Attributes:
        title: The metric, or what the sweep varies beside.
        curves: Name -> points by x.
    """

    title: str
    x_label: str
    curves: dict[str, tuple[AdvantagePoint, ...]]


def advantage_panels(summary: Summary) -> list[AdvantagePanel]:
    """Figure 2b where a sweep has several smoothing factors, 2a where it has several sizes of the training set.

    Empty where the sweep varies no smoothing factor, or names no plain training to compare with.
    """
    axes = {axis.key: axis for axis in summary.axes}
    judged = [key for key in JUDGED if key in summary.measured]
    if ALPHA not in axes or not judged or not len(summary.frame) or f"{judged[0]}_diff" not in summary.frame:
        return []
    frame = summary.frame[~summary.frame["control"] & summary.frame[ALPHA].map(_is_number)]
    other_axes = [axis for axis in summary.axes if axis.key not in (ALPHA, SAMPLES)]
    panels: list[AdvantagePanel] = []
    for title, rows in _groups(frame, other_axes):
        if SAMPLES in axes:
            panels += _by_samples(rows, judged, title)
        elif rows[ALPHA].nunique() >= LEAST:
            curves = {metric_of(key).label: _points(rows, key, ALPHA) for key in judged}
            panels.append(AdvantagePanel(title=title, x_label="smoothing factor alpha", curves=_measured(curves)))
    return [panel for panel in panels if panel.curves]


def _by_samples(rows: pd.DataFrame, judged: Sequence[str], title: str) -> list[AdvantagePanel]:
    """One panel per metric, one curve per smoothing factor but that of plain training."""
    rows = rows[rows[SAMPLES].map(_is_number)]
    if rows[SAMPLES].nunique() < LEAST - 1:
        return []
    panels = []
    for key in judged:
        curves = {f"alpha {alpha:g}": _points(same, key, SAMPLES) for alpha, same in rows.groupby(ALPHA) if alpha != 0}
        name = " \u00b7 ".join(filter(None, (metric_of(key).label, title)))
        panels.append(AdvantagePanel(title=name, x_label="training images per class", curves=_measured(curves)))
    return panels


def _groups(frame: pd.DataFrame, other_axes: Sequence[Axis]) -> list[tuple[str, pd.DataFrame]]:
    """Group the rows that differ only in smoothing and samples, under a label of what they share."""
    if not other_axes:
        return [("", frame)]
    groups = [rows for _, rows in frame.groupby([frame[axis.key].map(str) for axis in other_axes], sort=False)]
    return [(", ".join(axis_value(axis, rows[axis.key].iloc[0]) for axis in other_axes), rows) for rows in groups]


def _points(rows: pd.DataFrame, key: str, over: str) -> tuple[AdvantagePoint, ...]:
    sign, points = metric_of(key).sign, []
    for _, row in rows.sort_values(over).iterrows():
        difference = 0.0 if row["is_baseline"] else row[f"{key}_diff"]
        plain = row[key] - difference
        if is_null(difference) or is_null(plain) or not plain:
            continue
        ends = [math.nan] * 2 if row["is_baseline"] else [row[f"{key}_diff_low"], row[f"{key}_diff_high"]]
        value, low, high = (sign * float(value) / abs(plain) for value in (difference, *ends[::sign]))
        points.append(AdvantagePoint(x=float(row[over]), value=value, low=low, high=high))
    return tuple(points)


def _measured(curves: dict[str, tuple[AdvantagePoint, ...]]) -> dict[str, tuple[AdvantagePoint, ...]]:
    return {name: points for name, points in curves.items() if len(points) > 1}


def _is_number(value: object) -> bool:
    return not is_null(value) and isinstance(value, Real) and not isinstance(value, bool)
