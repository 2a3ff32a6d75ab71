"""What a defense costs in training time."""

from __future__ import annotations

import numpy as np

from orchestrator.reading.defenses.families import (
    DefenseGroup,
)
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary

COST = "seconds_target"
"""Column of the results with a training's seconds."""


def training_costs(
    data: ReportData, summary: Summary, group: DefenseGroup
) -> dict[str, tuple[float, float, float]]:
    """Recipe -> its training time over plain training's: geometric mean over common seeds, smallest, largest.

    From the column `seconds_target` of the results, where it is there; one training serves several attacks and counts
    once. Empty without plain training to compare with.
    """
    if COST not in data.results or group.plain is None:
        return {}
    by_trial = data.results.drop_duplicates("trial").set_index("trial")
    spent = {}
    for point in group.points:
        mine = summary.frame.loc[summary.frame["recipe"] == point.recipe, "trials"]
        known = by_trial.loc[[trial for trials in mine for trial in trials], ["seed", COST]].dropna()
        spent[point.recipe] = known[known[COST] > 0].groupby("seed")[COST].min()
    base = spent[group.plain.recipe]
    found = {}
    for recipe, seconds in spent.items():
        ratios = (seconds.astype(float) / base.astype(float)).dropna()
        if len(ratios):
            found[recipe] = (float(np.exp(np.log(ratios).mean())), float(ratios.min()), float(ratios.max()))
    return found
