"""What each use of the accuracy-leak plot shows: which recipes, at which attack, against what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.page.drawing.canvas import limits
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.accuracy_leak import Curve, Ends, Panel, Point
from smoothsweep.orchestrator.result.defenses import (
    DefenseFamily,
    DefenseGroup,
    accuracy_floor,
    best_point,
    family_index,
)
from smoothsweep.orchestrator.result.display import hover, is_crowded, judges_shown, shown_rows
from smoothsweep.orchestrator.result.findings import share
from smoothsweep.orchestrator.result.format import is_null, number
from smoothsweep.orchestrator.result.summary import Summary, decide

REACH = 0.2
"""Accuracy below the best that a panel shows; recipes that lost more sit at its left edge."""

Marked = Mapping[str, tuple[str, int, bool]]
"""Recipe -> its name in the plot, its shape, and whether its mark is hollow."""


@dataclass(frozen=True, kw_only=True)
class Panels:
    """The panels of one sweep."""

    summary: Summary
    colours: Colours

    def frontier(self) -> Panel | None:
        """Every recipe under its worst attack by the metric that decides; None with fewer than two to place."""
        summary = self.summary
        rows = self._placed({} if summary.evidence is None else summary.evidence.rows)
        if len(rows) < 2:
            return None
        spec, front, frame = summary.spec, decide(summary).front, summary.frame.loc[list(rows.values())]
        named = [r for r in rows if not is_crowded(summary) or r in front or r == summary.baseline_recipe]
        min_test_acc = summary.min_test_acc
        near = frame["test_acc"] >= frame["test_acc"].max() - REACH
        held = [
            *frame.loc[near | frame["recipe"].isin(front), "test_acc"],
            *([] if min_test_acc is None else [min_test_acc]),
        ]
        lo, hi = limits(held, share=0.1, least=0.008)
        top = [*frame[spec.key], *frame[f"{spec.key}_high"].dropna()]
        rate = spec.unit == "percent"
        return Panel(
            title=f"Leak: {spec.label}" + (", strongest attack" if len(summary.attacks) > 1 else ""),
            spec=spec,
            points=_small_first(self._of_frontier(recipe, row, recipe in named) for recipe, row in rows.items()),
            x=(max(0.0, lo), min(hi, 1 + 0.25 * (hi - lo))),
            y=(0.0, min(1.0, max(0.05, 1.04 * max(top)))) if rate else limits(frame[spec.key], least=1e-6),
            asked=None
            if min_test_acc is None
            else (min_test_acc, f"{number(metric_of('test_acc'), min_test_acc)} asked for"),
            stairs=tuple(self._spot(rows[recipe], spec.key) for recipe in front if recipe in rows),
            control=self._control(spec.key),
        )

    def attacks(self, but: str | None = None) -> list[Panel]:
        """One per attack and judge. but: a judge to leave out where there is a single attack."""
        if "test_acc" not in self.summary.measured:
            return []
        attacks = self.summary.attacks
        judges = [key for key in judges_shown(self.summary) if len(attacks) > 1 or key != but]
        x = limits(self._seen("test_acc"), share=0.16, least=0.008)
        return [self._of_attack(judge, attack, x, self._span(judge)) for attack in attacks for judge in judges]

    def families(
        self, group: DefenseGroup, metric: str, attack: str | None = None
    ) -> list[tuple[DefenseFamily, Panel]]:
        """One per family with a measured point: its curve, all other recipes small behind it. One scale for all.

        attack: one attack; None sets every recipe under the one that works best against it.
        """
        rows = self._in_group(group, metric, attack)
        families = [family for family in group.families if any(point.recipe in rows for point in family.points)]
        if not families:
            return []
        seen = self.summary.frame.loc[list(rows.values()), "test_acc"]
        x, y = limits(list(seen[seen >= seen.max() - REACH]), least=0.008), self._leak_span(metric, rows)
        return [(family, self._of_family(group, family, metric, rows, x, y)) for family in families]

    def best(self, group: DefenseGroup) -> Panel | None:
        """Every family's best point with its name, the other recipes small; None with fewer than two such points."""
        summary, metric = self.summary, self.summary.primary
        if metric is None or metric not in summary.measured:
            return None
        rows = self._in_group(group, metric)
        best_points = {family.key: best_point(summary, group, family.points) for family in group.families}
        best = {key: held for key, held in best_points.items() if held is not None and held[0].recipe in rows}
        if len(best) < 2:
            return None
        floor = accuracy_floor(summary, group)
        near = [rows[p.recipe] for p, enough in best.values() if enough]
        near += [rows[group.reference]] if group.reference in rows else []
        seen = [*summary.frame.loc[near or list(rows.values()), "test_acc"], *([] if floor is None else [floor])]
        x = limits(seen, share=0.16, least=0.008)
        marked = {
            point.recipe: (point.words.label, family_index(summary, key), point.words.combined)
            for key, (point, _) in best.items()
        }
        return Panel(
            title=f"Leak: {summary.spec.label}, the best of each defense",
            spec=summary.spec,
            x=x,
            y=self._leak_span(metric, rows),
            points=self._group_points(group, metric, rows, marked, x),
            guide=self._reference(group, rows, metric),
            control=self._control(metric),
            asked=None if floor is None else (floor, f"{number(metric_of('test_acc'), floor)} accuracy"),
        )

    def _of_frontier(self, recipe: str, row: int, named: bool) -> Point:
        summary = self.summary
        defended, choice = (
            summary.defenses.get(recipe),
            summary.compared.recommendation.probability_best,
        )
        words = hover(summary.cells[row], summary.deciding)
        if choice and recipe in choice:
            words = f"{words}\nbest with probability {share(choice[recipe])}"
        shape = family_index(summary, defended.words.family) if defended and not defended.words.plain else 0
        return self._point(
            row,
            summary.deciding,
            words=words,
            shape=shape,
            name=recipe if named else "",
            small=not named,
            hollow=bool(summary.frame.loc[row, "is_baseline"]),
            link=f"#row-{row}",
            chosen=named and recipe == summary.compared.recommended,
        )

    def _of_attack(self, judge: str, attack: str, x: Ends, y: Ends) -> Panel:
        frame, spec, named = self.summary.frame, self.summary.metric(judge), shown_rows(self.summary)
        measured = (frame["attack"] == attack) & frame[judge].notna() & frame["test_acc"].notna()
        at = frame.loc[measured, ["recipe", "is_baseline"]]
        points = [
            self._point(
                row,
                judge,
                name=values["recipe"] if row in named else "",
                small=row not in named,
                hollow=bool(values["is_baseline"]),
                seeds=self._seeds(row, judge) if row in named else (),
            )
            for row, values in at.iterrows()
        ]
        base = at.index[at["is_baseline"]]
        return Panel(
            title=f"Leak: {spec.label}" + (f" \u00b7 {attack}" if attack else ""),
            spec=spec,
            x=x,
            y=y,
            points=_small_first(points),
            guide=self._spot(base[0], judge) if len(base) == 1 else None,
            control=self._control(judge),
        )

    def _of_family(
        self, group: DefenseGroup, family: DefenseFamily, metric: str, rows: Mapping[str, int], x: Ends, y: Ends
    ) -> Panel:
        index, colour = family_index(self.summary, family.key), self.colours.of(family.points[0].recipe)
        curves = []
        for arm in family.arms:
            spots = [self._spot(rows[point.recipe], metric) for point in arm.points if point.recipe in rows]
            if len(spots) > 1:
                held = tuple((min(max(a, x[0]), x[1]), b) for a, b in spots)
                curves.append(Curve(spots=held, colour=colour, dashed=bool(arm.name)))
        marked = {point.recipe: (point.words.mark, index, point.words.combined) for point in family.points}
        return Panel(
            title=family.name,
            spec=metric_of(metric),
            x=x,
            y=y,
            curves=tuple(curves),
            colour=colour,
            shape=index,
            points=self._group_points(group, metric, rows, marked, x),
            guide=self._reference(group, rows, metric),
        )

    def _group_points(
        self, group: DefenseGroup, metric: str, rows: Mapping[str, int], marked: Marked, x: Ends
    ) -> tuple[Point, ...]:
        """The marked recipes, rings for plain training and the reference, the rest small."""
        plain = group.plain.recipe if group.plain else None
        points = []
        for recipe, row in rows.items():
            if recipe in (plain, group.reference):
                name = "plain" if recipe == plain else "baseline"
                points.append(self._point(row, metric, name=name, hollow=True))
            elif recipe in marked:
                name, shape, hollow = marked[recipe]
                points.append(self._point(row, metric, name=name, shape=shape, hollow=hollow))
            elif x[0] <= self.summary.frame.loc[row, "test_acc"] <= x[1]:
                points.append(self._point(row, metric, small=True, colour=self.colours.behind))
        return _small_first(points)

    def _point(self, row: int, metric: str, **look: Any) -> Point:
        values, bars = self.summary.cells[row], dict[str, Any]()
        for name, key in (("x_ends", "test_acc"), ("y_ends", metric)):
            estimate = self.summary.estimate(row, key)
            low, high = estimate.low, estimate.high
            bars[name] = None if is_null(low) or is_null(high) else (float(low), float(high))
        x, y = self._spot(row, metric)
        usual: dict[str, Any] = {"colour": self.colours.of(values["recipe"]), "words": hover(values, metric)}
        return Point(recipe=values["recipe"], x=x, y=y, **bars, **(usual | look))

    def _spot(self, row: int, metric: str) -> tuple[float, float]:
        return float(self.summary.frame.loc[row, "test_acc"]), float(self.summary.frame.loc[row, metric])

    def _seeds(self, row: int, judge: str) -> tuple[tuple[float, float], ...]:
        accuracies, leaks = self.summary.samples[row]["test_acc"], self.summary.samples[row][judge]
        known = [(accuracies[seed].value, leak.value) for seed, leak in leaks.items() if seed in accuracies]
        return tuple(known) if len(leaks) > 1 else ()

    def _control(self, metric: str) -> tuple[float, str] | None:
        """The most that the judge credits to a control, and its name."""
        row = self.summary.worst_of_control(metric)
        return None if row is None else (float(self.summary.frame.loc[row[1], metric]), f"control: {row[0]}")

    def _reference(self, group: DefenseGroup, rows: Mapping[str, int], metric: str) -> tuple[float, float] | None:
        return self._spot(rows[present(group.reference, "reference")], metric) if group.reference in rows else None

    def _placed(self, rows: Mapping[str, int]) -> dict[str, int]:
        """The rows with a known accuracy."""
        return {recipe: row for recipe, row in rows.items() if not is_null(self.summary.frame.loc[row, "test_acc"])}

    def _in_group(self, group: DefenseGroup, metric: str, attack: str | None = None) -> dict[str, int]:
        mine = {point.recipe for point in group.points}
        placed = self._placed(self.summary.rows(metric, attack))
        return {recipe: row for recipe, row in placed.items() if recipe in mine}

    def _seen(self, key: str) -> list[float]:
        """Every value of a metric that a figure must hold: single seeds. Error bars may leave the panel."""
        return [sample.value for cell in self.summary.samples for sample in cell[key].values()]

    def _span(self, key: str) -> Ends:
        """One scale for all judges in per cent: their panels are there to be compared."""
        if metric_of(key).unit != "percent":
            return limits(self._seen(key), least=1e-6)
        rates = [key for key in judges_shown(self.summary) if metric_of(key).unit == "percent"]
        highest = pd.concat([self.summary.frame[f"{key}_high"] for key in rates]).dropna()
        return 0.0, min(1.0, max(0.05, 1.08 * max([*highest, *(value for key in rates for value in self._seen(key))])))

    def _leak_span(self, metric: str, rows: Mapping[str, int]) -> Ends:
        """Around what occurs, intervals included: curves are compared by their places, not by lengths from zero."""
        frame = self.summary.frame.loc[list(rows.values())]
        if metric_of(metric).unit != "percent":
            return limits(list(frame[metric]), share=0.06, least=1e-6)
        lo, hi = limits(frame[[metric, f"{metric}_low", f"{metric}_high"]].stack().dropna(), share=0.06)
        return max(0.0, lo), min(1.0, hi)


def _small_first(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple(sorted(points, key=lambda point: not point.small))
