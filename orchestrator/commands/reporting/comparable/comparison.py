"""What a bundle says of its sweep, so that its rows can be compared with those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from smoothsweep.orchestrator.commands.reporting.comparable.conditions import Conditions, conditions_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.numbers.model import Axis, ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary, attack_label, recipe_label

COMPARISON, ROWS_BY_CLASS = "comparison.json", "per_class.parquet"
"""Names of the files in a bundle."""


class Standing(BaseModel):
    """What a sweep states beside its rows.

    Attributes:
        baseline: Its reference recipe by the report's name, None without one or with several.
        min_test_acc, accuracy_margin: The accuracy asked for, as in the sweep's file.
        primary: The leak that decides, where its search names one.
        people: Classes of the private data.
        real_images: Test images that the judges were tried on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["clean", "paper"]
    baseline: str | None = None
    min_test_acc: float | None = None
    accuracy_margin: float
    primary: str | None = None
    people: int | None = None
    real_images: int | None = None


class Comparison(BaseModel):
    """What a sweep states, the conditions of its rows, and why metrics are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    standing: Standing
    conditions: Conditions
    reasons: dict[str, str]


def comparison_of(trials: Sequence[Trial], data: ReportData, summary: Summary) -> Comparison:
    """The comparison of a sweep in the store. trials: all; those of fresh seeds and cheap attacks are left out."""
    mine = compared(trials)
    return Comparison(
        standing=Standing(
            protocol=data.protocol,
            baseline=summary.baseline_recipe,
            min_test_acc=data.min_test_acc,
            accuracy_margin=data.accuracy_margin,
            primary=data.primary,
            people=data.people,
            real_images=data.real_images,
        ),
        conditions=conditions_of(mine, _names(mine, data.axes)),
        reasons=dict(data.reasons),
    )


def compared(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that recipes are compared by."""
    return [trial for trial in trials if trial.phase == "sweep"]


def _names(trials: Sequence[Trial], axes: Sequence[Axis]) -> Mapping[str, tuple[str, str]]:
    """Trial -> the report's names of its recipe and attack."""
    return {t.id: (recipe_label(axes, t.cell.axes), attack_label(axes, t.cell.axes)) for t in trials}
