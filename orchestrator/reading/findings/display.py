"""What figures and tables show of many recipes, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.table import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.verdicts import CANNOT_TELL, LOWER
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison
from smoothsweep.orchestrator.reading.numbers.evidence import COLUMNS
from smoothsweep.orchestrator.reading.numbers.format import count, estimate, points, signed, signed_interval
from smoothsweep.orchestrator.reading.numbers.summary import Summary

MANY = 12
"""With more recipes than this, figures name or show only the baseline and the recipes on the front."""


def judges_shown(summary: Summary) -> list[str]:
    """The leak metrics that get a panel: the hit rates that were measured and the metric that decides."""
    judges = [key for key in CLASS_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in judges:
        judges.insert(0, summary.primary)
    return judges


def shown_rows(summary: Summary) -> list[int]:
    """The rows of the frame that get a line of their own in a figure."""
    rows = [int(index) for index in summary.frame.index]
    if len(summary.recipes) <= MANY:
        return rows
    front = decide(summary).front
    chosen = [row for row in rows if summary.frame.loc[row, "is_baseline"] or summary.frame.loc[row, "recipe"] in front]
    return chosen or rows[:MANY]


def hover(values: pd.Series, judge: str) -> str:
    """A point's recipe, accuracy and leak, in the words that appear above it."""
    name = values["recipe"] + (f", {values['attack']}" if values["attack"] else "")
    pieces = [name]
    for key in ("test_acc", judge):
        spec = metric_of(key)
        shown = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {shown} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)


@dataclass(frozen=True, kw_only=True)
class Told:
    """words: `26.1 points lower`, or that n is too small. look: good or bad for the owner, unclear, or neither ("").
    size: the interval of the difference, and the difference where the words do not say it."""

    words: str
    look: Literal["good", "bad", "unclear", ""]
    size: str


def told(spec: Metric, gap: Comparison) -> Told | None:
    """None where there is nothing to compare."""
    if not gap.verdict:
        return None
    ends = signed_interval(spec, gap.low, gap.high)
    if gap.verdict == CANNOT_TELL:
        words = "no difference" if gap.low == gap.high == 0 else "n too small to tell"
        return Told(words=words, look="unclear", size=f"{signed(spec, gap.difference)} {ends}".strip())
    defended = (gap.verdict == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else "good" if defended else "bad"
    return Told(words=f"{points(spec, gap.difference)} {gap.verdict}", look=look, size=ends)


def of_cell(spec: Metric, cell: pd.Series) -> Told | None:
    """The same for a cell of the summary's frame against its baseline."""
    return told(spec, Comparison(**{name: cell[f"{spec.key}{end}"] for end, name in COLUMNS.items()}))
