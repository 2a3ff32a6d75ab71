"""What a backdoor planted by `recipe.poison` did to the target (the paper's Table 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

CLEAN_TRAINING = "the training set has no backdoor (recipe.poison)"

COLUMNS: tuple[Metric, ...] = (
    Metric(
        key="backdoor_success",
        label="backdoor success",
        better="low",
        group="integrity",
        null=CLEAN_TRAINING,
        counted="own images",
        description="Share of test images of other classes that are answered with the backdoor's target class once "
        "they carry its trigger.",
    ),
    Metric(
        key="backdoor_false",
        label="target class without trigger",
        null=CLEAN_TRAINING,
        counted="own images",
        description="The same share without the trigger: what the backdoor's success must exceed to mean anything.",
    ),
    Metric(
        key="backdoor_collapsed",
        label="training collapsed",
        counted="trainings",
        null=CLEAN_TRAINING,
        description="1 where the target gives nearly every clean test image one class: its training failed, and the "
        "backdoor's success says nothing; over seeds, the share of such trainings.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Backdoor(Judge):
    """How often the trigger decides on test images; every target that was poisoned is measured."""

    cites = ("gu2017badnets",)

    stage = "backdoor"
    requested_by = "recipe.poison"
    work = StageWork(run="smoothsweep.tasks.poison:judge_backdoor", labelled=("target", "poison", "data"))
    columns = COLUMNS
    answers = "answers.parquet"
    needs_attack = False

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        inputs = {"target": "target", "poison": "target.poison", "data": "target.data"}
        return Planned(config={}, inputs=inputs)

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Test images of other classes than the backdoor's target."""
        others = int((answers["class"] != inputs["poison"]["poison"]["target"]).sum())
        return {"backdoor_success": others, "backdoor_false": others}
