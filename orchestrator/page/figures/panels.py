"""What each use of the accuracy-leak plot shows: which recipes, at which attack, against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from core.metrics.table import metric_of
from orchestrator.page.colours import Colours
from orchestrator.page.figures.accuracy_leak import Curve, Ends, Panel, Point
from orchestrator.page.figures.canvas import limits
from orchestrator.reading.defenses.families import (
    DefenseFamily,
    DefenseGroup,
    accuracy_floor,
    best_point,
    family_index,
)
from orchestrator.reading.findings.shown import MANY, hover, judges_shown, shown_rows
from orchestrator.reading.findings.sureness import share
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import is_null, number
from orchestrator.reading.numbers.summary import Summary

REACH = 0.2
"""Accuracy below the best that a panel shows; recipes that lost more sit at its left edge."""


def frontier_panel(summary: Summary, colours: Colours) -> Panel | None:
    """Every recipe under its worst attack by the metric that decides; None with fewer than two recipes to place."""
    rows = _known(summary, {} if summary.evidence is None else summary.evidence.rows)
    if len(rows) < 2:
        return None
    spec, front, frame = metric_of(summary.primary), decide(summary).front, summary.frame.loc[list(rows.values())]
    named = [r for r in rows if len(rows) <= MANY or r in front or r == summary.baseline_recipe]
    points = [_of_frontier(summary, colours, recipe, row, named=recipe in named) for recipe, row in rows.items()]
    asked = summary.min_test_acc
    near = frame["test_acc"] >= frame["test_acc"].max() - REACH
    held = [*frame.loc[near | frame["recipe"].isin(front), "test_acc"], *([] if asked is None else [asked])]
    lo, hi = limits(held, share=0.1, least=0.008)
    top = [*frame[spec.key], *frame[f"{spec.key}_high"].dropna()]
    rate = spec.unit == "percent"
    span = (0.0, min(1.0, max(0.05, 1.04 * max(top)))) if rate else limits(frame[spec.key], least=1e-6)
    worst = ", worst attack" if len(summary.attacks) > 1 else ""
    return Panel(
        title=f"Leak: {spec.label}{worst}", spec=spec, points=_small_first(points), y=span,
        x=(max(0.0, lo), min(hi, 1 + 0.25 * (hi - lo))),
        asked=None if asked is None else (asked, f"{number(metric_of('test_acc'), asked)} asked for"),
        stairs=tuple(_spot(summary, rows[recipe], spec.key) for recipe in front if recipe in rows),
        control=_control(summary, spec.key),
    )  # fmt: skip


def attack_panels(summary: Summary, colours: Colours, but: str | None = None) -> list[Panel]:
    """One panel per attack and judge. but: a judge to leave out where there is a single attack."""
    if "test_acc" not in summary.measured:
        return []
    judges = [key for key in judges_shown(summary) if len(summary.attacks) > 1 or key != but]
    accuracies = limits(_seen(summary, "test_acc"), share=0.16, least=0.008)
    return [
        _of_attack(summary, colours, judge, attack, accuracies, _span(summary, judge))
        for attack in summary.attacks
        for judge in judges
    ]


def family_panels(
    summary: Summary, group: DefenseGroup, colours: Colours, metric: str, attack: str | None = None
) -> list[tuple[DefenseFamily, Panel]]:
    """A panel per family with a measured point: its curve, all other recipes small behind it. One scale for all.

    attack: one attack; None sets every recipe under the one that works best against it.
    """
    rows = _in_group(summary, group, metric, attack)
    shown = [family for family in group.families if any(point.recipe in rows for point in family.points)]
    if not shown:
        return []
    seen = summary.frame.loc[list(rows.values()), "test_acc"]
    x, y = limits(list(seen[seen >= seen.max() - REACH]), least=0.008), _leak_span(summary, metric, rows)
    return [(family, _of_family(summary, group, family, colours, metric, rows, x, y)) for family in shown]


def best_panel(summary: Summary, group: DefenseGroup, colours: Colours) -> Panel | None:
    """Every family's best point with its name, the other recipes small; None with fewer than two such points."""
    if summary.primary is None or summary.primary not in summary.measured:
        return None
    metric = summary.primary
    rows = _in_group(summary, group, metric, None)
    found = {family.key: best_point(summary, group, family.points) for family in group.families}
    best = {key: held for key, held in found.items() if held is not None and held[0].recipe in rows}
    if len(best) < 2:
        return None
    floor = accuracy_floor(summary, group)
    near = [rows[p.recipe] for p, enough in best.values() if enough] + [rows[r] for r in [group.reference] if r in rows]
    seen = [*summary.frame.loc[near or list(rows.values()), "test_acc"], *([] if floor is None else [floor])]
    x = limits(seen, share=0.16, least=0.008)
    marked = {point.recipe: (point.words.label, family_index(summary, key), point.words.combined)
              for key, (point, _) in best.items()}  # fmt: skip
    spec = metric_of(metric)
    return Panel(
        title=f"Leak: {spec.label}, the best of each defense", spec=spec, x=x, y=_leak_span(summary, metric, rows),
        points=_group_points(summary, group, colours, metric, rows, marked, x),
        guide=_reference(summary, group, rows, metric), control=_control(summary, metric),
        asked=None if floor is None else (floor, f"{number(metric_of('test_acc'), floor)} accuracy"),
    )  # fmt: skip


def _of_frontier(summary: Summary, colours: Colours, recipe: str, row: int, *, named: bool) -> Point:
    values, defended = summary.frame.loc[row], summary.defenses.get(recipe)
    shares, words = summary.evidence.recommendation.probability_best, hover(values, summary.primary)
    if shares and recipe in shares:
        words = f"{words}\nbest with probability {share(shares[recipe])}"
    shape = family_index(summary, defended.words.family) if defended and not defended.words.plain else 0
    return _point(
        summary, colours, row, summary.primary, words=words, shape=shape, name=recipe if named else "",
        hollow=bool(values["is_baseline"]), small=not named, link=f"#row-{row}",
        chosen=named and recipe == summary.evidence.recommended,
    )  # fmt: skip


def _of_attack(summary: Summary, colours: Colours, judge: str, attack: str, x: Ends, y: Ends) -> Panel:
    frame, spec, named = summary.frame, metric_of(judge), shown_rows(summary)
    at = frame[(frame["attack"] == attack) & frame[judge].notna() & frame["test_acc"].notna()]
    points = [
        _point(summary, colours, int(row), judge, name=values["recipe"] if row in named else "", small=row not in named,
               hollow=bool(values["is_baseline"]), seeds=_seeds(summary, int(row), judge) if row in named else ())
        for row, values in at.iterrows()
    ]  # fmt: skip
    base = at[at["is_baseline"]]
    guide = (float(base["test_acc"].iloc[0]), float(base[judge].iloc[0])) if len(base) == 1 else None
    title = f"Leak: {spec.label}" + (f" \u00b7 {attack}" if attack else "")
    return Panel(title=title, spec=spec, points=_small_first(points), x=x, y=y, guide=guide,
                 control=_control(summary, judge))  # fmt: skip


def _of_family(
    summary: Summary, group: DefenseGroup, family: DefenseFamily, colours: Colours, metric: str,
    rows: Mapping[str, int], x: Ends, y: Ends,
) -> Panel:  # fmt: skip
    index, colour = family_index(summary, family.key), colours.of(family.points[0].recipe)
    marked = {point.recipe: (point.words.mark, index, point.words.combined) for point in family.points}
    curves = []
    for arm in family.arms:
        spots = [_spot(summary, rows[point.recipe], metric) for point in arm.points if point.recipe in rows]
        if len(spots) > 1:
            held = tuple((min(max(a, x[0]), x[1]), b) for a, b in spots)
            curves.append(Curve(spots=held, colour=colour, dashed=bool(arm.name)))
    return Panel(
        title=family.name, spec=metric_of(metric), x=x, y=y, curves=tuple(curves), colour=colour, shape=index,
        points=_group_points(summary, group, colours, metric, rows, marked, x),
        guide=_reference(summary, group, rows, metric),
    )  # fmt: skip


def _group_points(
    summary: Summary, group: DefenseGroup, colours: Colours, metric: str, rows: Mapping[str, int],
    marked: Mapping[str, tuple[str, int, bool]], x: Ends,
) -> tuple[Point, ...]:  # fmt: skip
    """The marked recipes (name, shape, hollow), rings for plain training and the reference, the rest small."""
    plain = group.plain.recipe if group.plain else None
    points = []
    for recipe, row in rows.items():
        if recipe in (plain, group.reference):
            name = "plain" if recipe == plain else "baseline"
            points.append(_point(summary, colours, row, metric, name=name, hollow=True))
        elif recipe in marked:
            name, shape, hollow = marked[recipe]
            points.append(_point(summary, colours, row, metric, name=name, shape=shape, hollow=hollow))
        elif x[0] <= summary.frame.loc[row, "test_acc"] <= x[1]:
            points.append(_point(summary, colours, row, metric, small=True, behind=True))
    return _small_first(points)


def _point(summary: Summary, colours: Colours, row: int, metric: str, *, behind: bool = False, words: str = "",
           **look: object) -> Point:  # fmt: skip
    values = summary.frame.loc[row]
    ends = {
        name: None if is_null(values[f"{key}_low"]) else (float(values[f"{key}_low"]), float(values[f"{key}_high"]))
        for name, key in (("x_ends", "test_acc"), ("y_ends", metric))
    }
    x, y = _spot(summary, row, metric)
    colour = colours.behind if behind else colours.of(values["recipe"])
    return Point(recipe=values["recipe"], x=x, y=y, colour=colour, words=words or hover(values, metric), **ends, **look)


def _spot(summary: Summary, row: int, metric: str) -> tuple[float, float]:
    return float(summary.frame.loc[row, "test_acc"]), float(summary.frame.loc[row, metric])


def _small_first(points: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(sorted(points, key=lambda point: not point.small))


def _seeds(summary: Summary, row: int, judge: str) -> tuple[tuple[float, float], ...]:
    accuracies, leaks = summary.samples[row]["test_acc"], summary.samples[row][judge]
    if len(leaks) < 2:
        return ()
    return tuple((accuracies[seed].value, one.value) for seed, one in leaks.items() if seed in accuracies)


def _control(summary: Summary, metric: str) -> tuple[float, str] | None:
    """The most that the judge credits to a control, and its name."""
    found = summary.worst_of_control(metric)
    return None if found is None else (float(summary.frame.loc[found[1], metric]), f"control: {found[0]}")


def _reference(
    summary: Summary, group: DefenseGroup, rows: Mapping[str, int], metric: str
) -> tuple[float, float] | None:
    return _spot(summary, rows[group.reference], metric) if group.reference in rows else None


def _known(summary: Summary, rows: Mapping[str, int]) -> dict[str, int]:
    """The rows with a known accuracy."""
    return {recipe: row for recipe, row in rows.items() if not is_null(summary.frame.loc[row, "test_acc"])}


def _in_group(summary: Summary, group: DefenseGroup, metric: str, attack: str | None) -> dict[str, int]:
    mine = {point.recipe for point in group.points}
    return {recipe: row for recipe, row in _known(summary, summary.rows(metric, attack)).items() if recipe in mine}


def _seen(summary: Summary, key: str) -> list[float]:
    """Every value of a metric that a figure must hold: single seeds. Error bars may leave the panel."""
    return [sample.value for cell in summary.samples for sample in cell[key].values()]


def _span(summary: Summary, key: str) -> Ends:
    """One scale for all judges in per cent: their panels are there to be compared."""
    if metric_of(key).unit != "percent":
        return limits(_seen(summary, key), least=1e-6)
    rates = [key for key in judges_shown(summary) if metric_of(key).unit == "percent"]
    top = [*(pd.concat([summary.frame[f"{key}_high"] for key in rates]).dropna()),
           *(value for key in rates for value in _seen(summary, key))]  # fmt: skip
    return 0.0, min(1.0, max(0.05, 1.08 * max(top)))


def _leak_span(summary: Summary, metric: str, rows: Mapping[str, int]) -> Ends:
    """Around what occurs, intervals included: curves are compared by their places, not by lengths from zero."""
    frame = summary.frame.loc[list(rows.values())]
    if metric_of(metric).unit != "percent":
        return limits(list(frame[metric]), share=0.06, least=1e-6)
    ends = [*frame[metric], *frame[f"{metric}_low"].dropna(), *frame[f"{metric}_high"].dropna()]
    lo, hi = limits(ends, share=0.06)
    return max(0.0, lo), min(1.0, hi)
