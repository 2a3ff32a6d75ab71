"""Accuracy against leak with each defense as a curve over its strength: one small panel per family, and one of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from orchestrator.page.colours import Colours
from orchestrator.page.markers import marker
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.scatter import whisker
from orchestrator.page.svg import (
    Labels,
    Scale,
    figure,
    label,
    line,
    padded,
    percent,
    plain,
    polyline,
    text_width,
    x_axis,
    y_axis,
)
from orchestrator.reading.defenses.families import (
    Arm,
    DefenseFamily,
    DefenseGroup,
    Point,
    accuracy_floor,
    best_point,
    family_index,
    rows_of,
)
from orchestrator.reading.findings.shown import hover
from orchestrator.reading.numbers.format import is_null, number
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.summary import Summary

PANEL_W, PANEL_H = 360.0, 320.0
ALL_W, ALL_H = 1024.0, 520.0
REACH = 0.2
"""Accuracy below the best that a panel shows; recipes that lost more sit at its left edge."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A panel to draw in. metric: the leak. rows: recipe -> its row of the frame, where accuracy and leak are known.
    x, y: scales of accuracy and leak."""

    summary: Summary
    group: DefenseGroup
    colours: Colours
    metric: str
    rows: Mapping[str, int]
    x: Scale
    y: Scale

    def values(self, recipe: str) -> pd.Series:
        return self.summary.frame.loc[self.rows[recipe]]

    def at(self, recipe: str) -> tuple[float, float]:
        """A recipe's place; one that lost more accuracy than the panel shows sits at its left edge."""
        values = self.values(recipe)
        return self.x(self.x.clamp(values["test_acc"])), self.y(self.y.clamp(values[self.metric]))

    @property
    def rings(self) -> list[str]:
        """The recipes that every panel shows as a ring: plain training and the reference."""
        names = (self.group.plain.recipe if self.group.plain else None, self.group.reference)
        return [name for name in dict.fromkeys(names) if name in self.rows]


def family_panels(
    summary: Summary, group: DefenseGroup, colours: Colours, metric: str, attack: str | None = None
) -> list[tuple[DefenseFamily, Markup]]:
    """A figure per family with a measured point: its curve, all other recipes in grey behind it. One scale for all.

    attack: one attack; None sets every recipe under the one that works best against it.
    """
    rows = _rows(summary, group, metric, attack)
    shown = [family for family in group.families if any(point.recipe in rows for point in family.points)]
    if not shown:
        return []
    accuracies = summary.frame.loc[list(rows.values()), "test_acc"]
    lo, hi = padded(list(accuracies[accuracies >= accuracies.max() - REACH]), least=0.008)
    x = Scale(lo=lo, hi=hi, start=40, end=PANEL_W - 10)
    y = _leak_scale(summary, metric, rows, (34, PANEL_H - 42))
    plot = Plot(summary=summary, group=group, colours=colours, metric=metric, rows=rows, x=x, y=y)
    return [(family, _panel(plot, family)) for family in shown]


def all_panels(summary: Summary, group: DefenseGroup, colours: Colours) -> Markup | None:
    """The panels of the deciding metric in one figure, for a file of its own; None where nothing is measured."""
    if summary.primary is None or summary.primary not in summary.measured:
        return None
    panels = family_panels(summary, group, colours, summary.primary)
    if not panels:
        return None
    across = min(3, len(panels))
    width, height = PANEL_W + 20, PANEL_H + 16
    placed = [
        tag("g", _inside(drawn), transform=f"translate({index % across * width:g} {index // across * height:g})")
        for index, (_, drawn) in enumerate(panels)
    ]
    rows = -(-len(panels) // across)
    title = "Test accuracy against leak, one panel for each defense"
    return figure(across * width - 20, rows * height - 16, title, *placed)


def best_of_each(summary: Summary, group: DefenseGroup, colours: Colours) -> Markup | None:
    """Every family's best point with its name, its other recipes in grey; None with fewer than two such points."""
    if summary.primary is None or summary.primary not in summary.measured:
        return None
    rows = _rows(summary, group, summary.primary, None)
    found = {family.key: best_point(summary, group, family.points) for family in group.families}
    best = {key: held for key, held in found.items() if held is not None and held[0].recipe in rows}
    if len(best) < 2:
        return None
    plot = _best_plot(summary, group, colours, rows, [point.recipe for point, enough in best.values() if enough])
    parts = [_frame(plot), *_reference_lines(plot), *_floor_line(plot)]
    chosen = {point.recipe for point, _ in best.values()}
    parts += _behind(plot, [point for point in group.points if point.recipe not in chosen])
    own = [(point, family_index(summary, key)) for key, (point, _) in best.items()]
    parts.append(_named_points(plot, own, whole=True))
    return figure(ALL_W, ALL_H, "The best recipe of each defense: test accuracy against leak", *parts)


def _best_plot(
    summary: Summary, group: DefenseGroup, colours: Colours, rows: Mapping[str, int], enough: Sequence[str]
) -> Plot:
    """Scaled to the recipes that are accurate enough: what lost more sits at the left edge."""
    frame, floor = summary.frame, accuracy_floor(summary, group)
    near = [rows[name] for name in (*enough, group.reference) if name in rows] or list(rows.values())
    seen = [*frame.loc[near, "test_acc"], *([floor] if floor is not None else [])]
    lo, hi = padded(seen, share=0.16, least=0.008)
    x = Scale(lo=lo, hi=hi, start=46, end=ALL_W - 16)
    y = _leak_scale(summary, summary.primary, rows, (34, ALL_H - 48))
    return Plot(summary=summary, group=group, colours=colours, metric=summary.primary, rows=rows, x=x, y=y)


def _floor_line(plot: Plot) -> list[Markup]:
    floor = accuracy_floor(plot.summary, plot.group)
    if floor is None or not plot.x.inside(floor):
        return []
    at = plot.x(floor)
    words = f"{number(spec_of('test_acc'), floor)} accuracy"
    return [line(at, plot.y.start, at, plot.y.end, "axis"), label(at + 6, plot.y.end + 4, words, "soft small")]


def _rows(summary: Summary, group: DefenseGroup, metric: str, attack: str | None) -> dict[str, int]:
    """The group's recipes with known accuracy and leak."""
    mine = {point.recipe for point in group.points}
    return {
        recipe: row
        for recipe, row in rows_of(summary, metric, attack).items()
        if recipe in mine and not pd.isna(summary.frame.loc[row, "test_acc"])
    }


def _leak_scale(summary: Summary, metric: str, rows: Mapping[str, int], down: tuple[float, float]) -> Scale:
    """Around what occurs, intervals included: curves are compared by their places, not by lengths from zero."""
    frame, unit = summary.frame.loc[list(rows.values())], spec_of(metric).unit
    seen = [*frame[metric], *(frame[f"{metric}_low"].dropna()), *(frame[f"{metric}_high"].dropna())]
    if unit != "percent":
        seen = list(frame[metric])
    lo, hi = padded(seen, share=0.06, least=0.02 if unit == "percent" else 1e-6)
    if unit == "percent":
        lo, hi = max(0.0, lo), min(1.0, hi)
    return Scale(lo=lo, hi=hi, start=down[1], end=down[0])


def _inside(drawn: Markup) -> Markup:
    """What a figure holds, to become part of another."""
    return Markup(drawn[drawn.index(">") + 1 : drawn.rindex("</svg>")])


def _frame(plot: Plot, about: int = 5) -> Markup:
    x, y, spec = plot.x, plot.y, spec_of(plot.metric)
    shown = percent if spec.unit == "percent" else plain
    corner = label(x.end - 4, y.start - 8, "better \u2198", "soft small", "end")
    if spec.better == "high":
        corner = label(x.end - 4, y.end + 12, "better \u2197", "soft small", "end")
    return join(y_axis(x, y, shown, about), x_axis(x, y, percent, "test accuracy, %", about), corner)


def _reference_lines(plot: Plot) -> list[Markup]:
    """Dotted lines that cross at the reference: below and right of them a recipe is better in both ways."""
    if plot.group.reference not in plot.rows:
        return []
    (cx, cy), x, y = plot.at(plot.group.reference), plot.x, plot.y
    return [line(x.start, cy, x.end, cy, "guide"), line(cx, y.start, cx, y.end, "guide")]


def _behind(plot: Plot, points: Sequence[Point]) -> list[Markup]:
    """Recipes that are not the panel's matter: small grey dots that the hover text names, where they lie within."""
    parts = []
    for recipe in (point.recipe for point in points if point.recipe in plot.rows):
        values = plot.values(recipe)
        if recipe not in plot.rings and plot.x.inside(values["test_acc"]):
            cx, cy = plot.at(recipe)
            dot = tag("circle", cx=cx, cy=cy, r=3.5, class_="behind")
            parts.append(tag("g", tag("title", hover(values, plot.metric)), dot, class_="pt", data_recipe=recipe))
    return parts


def _panel(plot: Plot, family: DefenseFamily) -> Markup:
    index = family_index(plot.summary, family.key)
    look = plot.colours.css_class(family.points[0].recipe)
    own = [point for point in family.points if point.recipe in plot.rows]
    parts = [tag("g", marker(index, 9, 14), label(24, 19, family.name, "named"), class_=look), _frame(plot, about=4)]
    parts += _behind(plot, [point for point in plot.group.points if point not in own])
    parts += _reference_lines(plot)
    parts += [_curve(plot, arm, look) for arm in family.arms]
    parts.append(_named_points(plot, [(point, index) for point in own], whole=False))
    title = f"{family.name}: test accuracy against leak by the {spec_of(plot.metric).label}"
    return figure(PANEL_W, PANEL_H, title, *parts)


def _curve(plot: Plot, arm: Arm, look: str) -> Markup:
    """The arm's points joined in order of strength; dashed where the family's main curve is another one."""
    spots = [plot.at(point.recipe) for point in arm.points if point.recipe in plot.rows]
    if len(spots) < 2:
        return Markup("")
    return tag("g", polyline(spots, "curve dash" if arm.name else "curve"), class_=look)


def _named_points(plot: Plot, own: Sequence[tuple[Point, int]], *, whole: bool) -> Markup:
    """Markers with bars and names, and the rings. own: points with their family's shape. whole: whole recipe names,
    not strengths alone."""
    labels = Labels()
    own = [(point, index) for point, index in own if point.recipe not in plot.rings]
    for recipe in (*plot.rings, *(point.recipe for point, _ in own)):
        cx, cy = plot.at(recipe)
        labels.keep_clear(cx - 8, cy - 8, cx + 8, cy + 8)
    parts = [_ring(plot, name) for name in plot.rings]
    parts += [_marked(plot, point, index) for point, index in own]
    for point, _ in own:
        parts.append(_name(plot, point.recipe, point.words.label if whole else point.words.mark, labels))
    for name in plot.rings:
        is_plain = plot.group.plain is not None and name == plot.group.plain.recipe
        parts.append(_name(plot, name, "plain" if is_plain else "baseline", labels))
    return join(*parts)


def _bars(plot: Plot, recipe: str) -> Markup:
    """Intervals in both directions, lighter than the points."""
    x, y, values, (cx, cy) = plot.x, plot.y, plot.values(recipe), plot.at(recipe)
    parts = []
    if x.inside(values["test_acc"]) and not is_null(values["test_acc_low"]):
        ends = values["test_acc_low"], values["test_acc_high"]
        parts.append(whisker(x, ends, lambda value: (x(value), cy), upright=False))
    if not is_null(values[f"{plot.metric}_low"]):
        ends = values[f"{plot.metric}_low"], values[f"{plot.metric}_high"]
        parts.append(whisker(y, ends, lambda value: (cx, y(value)), upright=True))
    return tag("g", *parts, class_="thin")


def _ring(plot: Plot, recipe: str) -> Markup:
    cx, cy = plot.at(recipe)
    words = tag("title", hover(plot.values(recipe), plot.metric))
    ring = tag("circle", cx=cx, cy=cy, r=6, class_="ring")
    look = f"pt {plot.colours.css_class(recipe)}"
    return tag("g", words, _bars(plot, recipe), ring, class_=look, data_recipe=recipe)


def _marked(plot: Plot, point: Point, index: int) -> Markup:
    """One recipe as its family's shape, hollow where it is combined with smoothing."""
    values, (cx, cy) = plot.values(point.recipe), plot.at(point.recipe)
    parts = [tag("title", hover(values, plot.metric)), _bars(plot, point.recipe)]
    if not plot.x.inside(values["test_acc"]):
        parts.append(polyline([(cx - 9, cy - 5), (cx - 15, cy), (cx - 9, cy + 5)], "bar"))
    parts.append(marker(index, cx, cy, hollow=point.words.combined))
    return tag("g", *parts, class_=f"pt {plot.colours.css_class(point.recipe)}", data_recipe=point.recipe)


def _name(plot: Plot, recipe: str, name: str, labels: Labels) -> Markup:
    """The name beside its point; with its accuracy where that lies outside the panel."""
    accuracy, at = plot.values(recipe)["test_acc"], plot.at(recipe)
    lost = "" if plot.x.inside(accuracy) else f" (at {number(spec_of('test_acc'), accuracy)})"
    whole = f"{name}{lost}"
    shown = whole if len(whole) <= 36 else f"{whole[:35]}\u2026"
    spot = labels.place(*at, text_width(shown), (plot.x.start, plot.y.end - 12, plot.x.end + 6, plot.y.start))
    leader = line(*at, spot.x, spot.y - 4, "leader") if spot.leader else ""
    words = label(spot.x, spot.y, shown, "named halo", spot.anchor)
    return tag("g", leader, words, class_=plot.colours.css_class(recipe), data_recipe=recipe)
