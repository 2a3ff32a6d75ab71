"""What the sweep cost: device time by kind of stage and by recipe, and what sharing stages saved."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from orchestrator.reading.numbers.format import count, duration
from orchestrator.reading.numbers.model import ReportData, Spent, StageLink
from orchestrator.reading.numbers.summary import Summary

SHARED = "shared by several recipes"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Device time of some stages. stages: how many. seconds: devices held times seconds. saved: what they would have
    cost on top, had no stage served several trials."""

    stages: int = 0
    seconds: float = 0.0
    saved: float = 0.0

    def plus(self, link: StageLink, uses: int) -> Cost:
        seconds = link.seconds * link.devices
        return Cost(
            stages=self.stages + 1,
            seconds=self.seconds + seconds,
            saved=self.saved + seconds * (uses - 1),
        )


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Every stage once: by its kind, and by the recipe that alone needs it."""

    total: Cost
    by_kind: dict[str, Cost]
    by_recipe: dict[str, Cost]


def costs(data: ReportData, summary: Summary) -> Costs | None:
    """From the manifests that the trials lead to; None where they lead to none."""
    owner = {trial: row["recipe"] for _, row in summary.frame.iterrows() for trial in row["trials"]}
    links: dict[str, StageLink] = {}
    users: dict[str, set[str]] = defaultdict(set)
    for trial, stages in data.links.items():
        for link in stages:
            links[link.path] = link
            users[link.path].add(trial)
    total, by_kind, by_recipe = Cost(), defaultdict(Cost), defaultdict(Cost)
    for path, link in links.items():
        uses = len(users[path])
        recipes = {owner.get(trial, "cheap attacks and fresh seeds") for trial in users[path]}
        name = recipes.pop() if len(recipes) == 1 else SHARED
        total = total.plus(link, uses)
        by_kind[link.stage] = by_kind[link.stage].plus(link, uses)
        by_recipe[name] = by_recipe[name].plus(link, uses)
    return Costs(total=total, by_kind=dict(by_kind), by_recipe=dict(by_recipe)) if links else None


def cost_words(total: Cost, spent: Spent | None) -> str:
    """`3 h 2 min of device time in 120 stages. ...`, and what the sweep's own runs took of it."""
    words = f"{duration(total.seconds)} of device time in {count(total.stages, 'stage')}."
    if total.saved > 0:
        words += f" Without sharing stages it would have been {duration(total.seconds + total.saved)}."
    if spent is not None:
        words += (
            f" The runs of this sweep took {duration(spent.device_s)} of device time (work that was cut off included, "
            f"stages found in the store not) in {duration(spent.wall_s)}."
        )
    return words


