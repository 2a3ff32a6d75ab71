"""One sweep of a report of several: its rows by recipe and attack, and the conditions that they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.reporting.comparable.comparison import Comparison, Standing
from smoothsweep.orchestrator.commands.reporting.comparable.conditions import Conditions
from smoothsweep.orchestrator.reading.numbers.estimates import images_column
from smoothsweep.orchestrator.reading.numbers.model import Axis, ReportData, StageLink
from smoothsweep.orchestrator.reading.numbers.summary import Summary, summarise

AXES = (Axis(key="recipe", bare=True, defense=True), Axis(key="attack", role="attack", bare=True))
"""A report of several sweeps knows recipes and attacks by their names alone."""

COLUMNS = ("trial", "seed", "status", "failure", "attack_access", "attack_control", "attack_published")
PER_CLASS = ("trial", "class", *CLASS_METRICS, *map(images_column, CLASS_METRICS))


@dataclass(frozen=True, kw_only=True)
class ComparedSweep:
    """One of several sweeps that are compared.

    Attributes:
        name: Name of the sweep, unlike those of the others.
        source: Where it was read from.
        comparison: What it states and rests on.
        rows: A row per trial with `COLUMNS` and metrics.
        per_class: As of `ReportData`.
        links: Trial -> its stages, as seen from the report.
        page: Its own report, as seen from this one, where there is one.
    """

    name: str
    source: str
    comparison: Comparison
    rows: pd.DataFrame
    per_class: pd.DataFrame | None
    links: Mapping[str, Sequence[StageLink]] = field(default_factory=dict)
    page: str | None = None

    @property
    def conditions(self) -> Conditions:
        """What its rows rest on."""
        return self.comparison.conditions

    @property
    def standing(self) -> Standing:
        """What it states beside its rows."""
        return self.comparison.standing

    @cached_property
    def data(self) -> ReportData:
        """The sweep by itself. Raises ValueError for rows that are no results."""
        known = {note.trial: note for note in self.conditions.trials}
        labels = [
            (known[trial].label, self.conditions.attacks[known[trial].attack].label) for trial in self.rows["trial"]
        ]
        rows = self.rows.assign(recipe=[name[0] for name in labels], attack=[name[1] for name in labels])
        return report_data(
            self.name,
            rows,
            self.per_class,
            self.standing,
            {note.trial: note.defense for note in known.values() if note.defense},
            reasons={key: why for key, why in self.comparison.reasons.items() if key in BY_KEY},
            links=self.links,
        )

    @cached_property
    def summary(self) -> Summary:
        """Its cells."""
        return summarise(self.data)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its finished trials, rising."""
        return tuple(sorted({int(seed) for seed in self.rows.loc[self.rows["status"] == "done", "seed"]}))

    @property
    def unfinished(self) -> int:
        """How many trials are not done."""
        return int((self.rows["status"] != "done").sum())


def report_data(
    title: str,
    rows: pd.DataFrame,
    per_class: pd.DataFrame | None,
    standing: Standing,
    defenses: Mapping[str, Mapping[str, Any]],
    **more: Any,
) -> ReportData:
    """Rows of recipes and attacks as a report has them. Raises ValueError for rows that are no results."""
    known = {note["recipe"] for note in rows.to_dict("records")}
    return ReportData(
        title=title,
        axes=AXES,
        results=rows.reset_index(drop=True),
        per_class=per_class if per_class is not None and len(per_class) else None,
        protocol=standing.protocol,
        baseline={"recipe": standing.baseline} if standing.baseline in known else {},
        min_test_acc=standing.min_test_acc,
        accuracy_margin=standing.accuracy_margin,
        primary=standing.primary,
        defenses=defenses,
        real_images=standing.real_images,
        people=standing.people,
        **more,
    )


def comparable_rows(results: pd.DataFrame) -> pd.DataFrame:
    """What a side has of a table of results."""
    columns = [name for name in (*COLUMNS, *BY_KEY) if name in results]
    rows = results[columns].copy()
    if "failure" in rows:
        rows["failure"] = [printable(failure) if isinstance(failure, str) else None for failure in rows["failure"]]
    return rows
