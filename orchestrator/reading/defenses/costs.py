"""The cost of a sweep: device time by kind of stage and by recipe, and the time saved by sharing stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from smoothsweep.orchestrator.reading.numbers.format import count, duration
from smoothsweep.orchestrator.reading.numbers.model import ReportData, Spent
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.tasks.stage_names import stage_title

SHARED = "shared by several recipes"
OTHERS = "cheap attacks and fresh seeds"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Device time of some stages.

    Attributes:
        stages: Number of stages.
        seconds: Devices held times seconds.
        saved: What they would have cost on top, had no stage served several trials.
        unit: Of which devices: `CPU time` where all were CPUs.
    """

    stages: int
    seconds: float
    saved: float
    unit: str = "device time"


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs by kind of stage, and by the recipe that alone needs a stage; every stage counts once."""

    total: Cost
    by_kind: dict[str, Cost]
    by_recipe: dict[str, Cost]


def costs(data: ReportData, summary: Summary) -> Costs | None:
    """Sum up the costs from the manifests of all trials; None without any manifest."""
    owner = {trial: row["recipe"] for row in summary.cells.values() for trial in row["trials"]}
    uses = pd.DataFrame(
        [
            {
                "path": link.path,
                "kind": link.stage,
                "seconds": link.seconds * link.devices,
                "device": link.device,
                "trial": trial,
                "recipe": owner.get(trial, OTHERS),
            }
            for trial, links in data.links.items()
            for link in links
        ]
    )
    if not len(uses):
        return None
    by_stage = uses.groupby("path", sort=False)
    stages = by_stage[["kind", "seconds", "recipe"]].last()
    stages["saved"] = stages["seconds"] * (by_stage["trial"].nunique() - 1)
    stages.loc[by_stage["recipe"].nunique() > 1, "recipe"] = SHARED
    kinds, recipes = (stages.groupby(column, sort=False) for column in ("kind", "recipe"))
    return Costs(
        total=_cost(stages, "CPU time" if (uses["device"] == "cpu").all() else "device time"),
        by_kind={stage_title(str(kind)): _cost(rows) for kind, rows in kinds},
        by_recipe={str(recipe): _cost(rows) for recipe, rows in recipes},
    )


def _cost(stages: Any, unit: str = "device time") -> Cost:
    seconds, saved = float(stages["seconds"].sum()), float(stages["saved"].sum())
    return Cost(stages=len(stages), seconds=seconds, saved=saved, unit=unit)


def cost_words(total: Cost, spent: Spent | None) -> str:
    """Sentences such as `3 h 2 min of CPU time in 120 stages.`, and the part that this sweep's own runs spent."""
    words = f"{duration(total.seconds)} of {total.unit} in {count(total.stages, 'stage')}."
    if total.saved > 0:
        words += f" Without sharing stages it would have been {duration(total.seconds + total.saved)}."
    if spent is not None:
        words += (
            f" The runs of this sweep took {duration(spent.device_s)} of {total.unit} (work that was cut off included, "
            f"stages found in the store not) in {duration(spent.wall_s)}."
        )
    return words
