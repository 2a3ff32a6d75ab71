"""What a figure shows of many recipes, and in which words."""

from __future__ import annotations

import pandas as pd

from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import count, estimate
from orchestrator.reading.numbers.metrics import CLASS_METRICS, spec_of
from orchestrator.reading.numbers.summary import Summary

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
        spec = spec_of(key)
        shown = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {shown} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)
