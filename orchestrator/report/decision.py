"""Which recipe the numbers choose: each recipe meets the attack that works best against it, the least leak wins."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from orchestrator.report.metrics import MetricSpec, spec_of
from orchestrator.report.summary import Summary


@dataclass(frozen=True, kw_only=True)
class Decision:
    """rows: recipe -> its row of the frame under its worst attack, where the leak was measured. best: the row that
    leaks least among the recipes accurate enough, None where there is none. reference: the baseline's row, if known.
    clear: whether the best differs clearly from the reference. tied: another allowed recipe leaks as little.
    front: recipes that no other beats in both test accuracy and leak.
    """

    rows: dict[str, int]
    best: int | None
    reference: int | None
    clear: bool = False
    tied: bool = False
    front: tuple[str, ...] = ()

    @property
    def marked(self) -> int | None:
        """The row a table marks as leaking least: none among one, none where another leaks exactly as little."""
        return self.best if len(self.rows) > 1 and not self.tied else None


def leak_sign(spec: MetricSpec) -> int:
    """+1 where larger values leak more, -1 where they leak less (distances)."""
    return -1 if spec.better == "high" else 1


def decide(summary: Summary) -> Decision:
    """The defender picks the recipe, the attacker the attack; recipes below `min_test_acc` cannot win."""
    metric, frame = summary.primary, summary.frame
    if metric is None or metric not in summary.measured:
        return Decision(rows={}, best=None, reference=None)
    sign = leak_sign(spec_of(metric))
    rows = worst_rows(summary, metric)
    allowed = [row for row in rows.values() if _accurate_enough(summary, row)]
    reference = rows.get(summary.baseline_recipe) if summary.baseline_recipe is not None else None
    # On a tie the baseline stays: nothing is gained by leaving it.
    best = min(allowed, key=lambda row: (sign * frame.loc[row, metric], row != reference), default=None)
    clear = False
    if best is not None and reference not in (None, best):
        clear = summary.compare(metric, best, reference).verdict == ("lower" if sign > 0 else "higher")
    tied = sum(frame.loc[row, metric] == frame.loc[best, metric] for row in allowed) > 1
    front = _front(summary, rows, sign)
    return Decision(rows=rows, best=best, reference=reference, clear=clear, tied=bool(tied), front=front)


def worst_rows(summary: Summary, metric: str) -> dict[str, int]:
    """Recipe -> its row under the attack that works best against it by this leak metric, where it was measured."""
    sign, frame = leak_sign(spec_of(metric)), summary.frame
    rows: dict[str, int] = {}
    for index, row in frame.iterrows():
        held = rows.get(row["recipe"])
        if not pd.isna(row[metric]) and (held is None or sign * row[metric] > sign * frame.loc[held, metric]):
            rows[row["recipe"]] = int(index)
    return rows


def _front(summary: Summary, rows: dict[str, int], sign: int) -> tuple[str, ...]:
    """The Pareto front of accuracy and leak, by their means."""
    frame = summary.frame
    places = {
        recipe: (frame.loc[row, "test_acc"], sign * frame.loc[row, summary.primary]) for recipe, row in rows.items()
    }
    known = {recipe: place for recipe, place in places.items() if not pd.isna(place[0])}
    return tuple(
        recipe
        for recipe, (acc, leak) in known.items()
        if not any(a >= acc and b <= leak and (a, b) != (acc, leak) for a, b in known.values())
    )


def _accurate_enough(summary: Summary, row: int) -> bool:
    return summary.min_test_acc is None or bool(summary.frame.loc[row, "test_acc"] >= summary.min_test_acc)
