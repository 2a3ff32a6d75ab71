"""Accuracy against leak: one panel per attack and judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from orchestrator.page.colours import Colours, numeric_order
from orchestrator.page.markup import Markup, join, tag
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
from orchestrator.reading.findings.shown import hover, judges_shown, shown_rows
from orchestrator.reading.numbers.format import is_null
from orchestrator.reading.numbers.metrics import MetricSpec, spec_of
from orchestrator.reading.numbers.summary import Summary

PANEL_W, PANEL_H = 500.0, 390.0
"""One accuracy-leak panel with its title and axes."""






def leak_panels(summary: Summary, colours: Colours) -> list[list[tuple[str, Markup]]]:
    """Test accuracy (x) against leak (y): one row of (title, drawing) per attack, one drawing per judge, each `PANEL_W`
    by `PANEL_H` with its origin at the top left. Empty where either was never measured."""
    shown, frame = judges_shown(summary), summary.frame
    if not shown or "test_acc" not in summary.measured:
        return []
    lo, hi = padded(_seen(summary, "test_acc"), share=0.16, least=0.008)
    x = Scale(lo=lo, hi=hi, start=46, end=PANEL_W - 8)
    rows = []
    for attack in summary.attacks:
        picked = [int(index) for index in frame.index[frame["attack"] == attack]]
        panels = []
        for judge in shown:
            y = _leak_scale(summary, judge, 36, PANEL_H - 48)
            head = "Leak: " + spec_of(judge).label + (f" \u00b7 {attack}" if attack else "")
            drawn = _panel(summary, colours, judge, picked, x, y)
            top, foot = label(x.start, 16, head, "strong"), x_axis(x, y, percent, "test accuracy, %")
            panels.append((head, join(top, drawn, foot)))
        rows.append(panels)
    return rows


def accuracy_leak_grid(summary: Summary, colours: Colours, but: str | None = None) -> Markup | None:
    """The panels as separate figures in a grid, which narrow screens stack. but: a judge to leave out where there is a
    single attack."""
    left_out = judges_shown(summary).index(but) if but and len(summary.attacks) == 1 else None
    rows = leak_panels(summary, colours)
    panels = [panel for row in rows for index, panel in enumerate(row) if index != left_out]
    figures = [figure(PANEL_W, PANEL_H, f"Test accuracy against leak. {head}", drawn) for head, drawn in panels]
    return tag("div", *figures, class_="pair") if figures else None


def accuracy_leak(summary: Summary, colours: Colours) -> Markup | None:
    """The panels in one figure, for a file of its own."""
    rows = leak_panels(summary, colours)
    placed = [
        tag("g", panel, transform=f"translate({across * (PANEL_W + 20):g} {down * (PANEL_H + 20):g})")
        for down, row in enumerate(rows)
        for across, (_, panel) in enumerate(row)
    ]
    if not placed:
        return None
    width, height = len(rows[0]) * (PANEL_W + 20) - 20, len(rows) * (PANEL_H + 20) - 20
    return figure(width, height, "Test accuracy against leak for each recipe, by attack and judge", *placed)


def _seen(summary: Summary, key: str) -> list[float]:
    """Every value of a metric that a figure must hold: means and single seeds. Error bars may leave the panel."""
    return [sample.value for cell in summary.samples for sample in cell[key].values()]


def _leak_scale(summary: Summary, key: str, top: float, bottom: float) -> Scale:
    seen = _seen(summary, key)
    if spec_of(key).unit != "percent":
        lo, hi = padded(seen, least=1e-6)
        return Scale(lo=lo, hi=hi, start=bottom, end=top)
    # One scale for all judges in per cent: their panels are there to be compared.
    rates = [
        value
        for other in judges_shown(summary)
        if spec_of(other).unit == "percent"
        for value in (*_seen(summary, other), *summary.frame[f"{other}_high"].dropna())
    ]
    return Scale(lo=0.0, hi=min(1.0, max(0.05, max(rates) * 1.08)), start=bottom, end=top)


def _panel(summary: Summary, colours: Colours, judge: str, rows: Sequence[int], x: Scale, y: Scale) -> Markup:
    spec, frame = spec_of(judge), summary.frame
    measured = [row for row in rows if not pd.isna(frame.loc[row, judge]) and not pd.isna(frame.loc[row, "test_acc"])]
    at = {row: (x(frame.loc[row, "test_acc"]), y(frame.loc[row, judge])) for row in measured}
    parts = [y_axis(x, y, percent if spec.unit == "percent" else plain)]
    parts.append(_better_corner(x, y, spec))
    for row in measured:
        if frame.loc[row, "is_baseline"]:
            parts += [
                line(x.start, at[row][1], x.end, at[row][1], "guide"),
                line(at[row][0], y.start, at[row][0], y.end, "guide"),
            ]
    if numeric_order(summary) and len(measured) > 2:
        parts.append(polyline([at[row] for row in measured], "axis guide"))
    labels, within = Labels(), (x.start, y.end - 12, x.end, y.start)
    named = shown_rows(summary)
    plain_dots = [row for row in measured if row not in named]
    prominent = [row for row in measured if row in named]
    for row in prominent:
        _keep_clear(labels, frame.loc[row], judge, x, y)
    parts += [_small_point(summary.frame.loc[row], judge, at[row]) for row in plain_dots]
    parts += [_point(summary, colours, judge, row, x, y) for row in prominent]
    # The reference and the least leak get the free spots first.
    for row in sorted(prominent, key=lambda row: (not frame.loc[row, "is_baseline"], frame.loc[row, judge])):
        parts.append(_point_label(frame.loc[row, "recipe"], colours, at[row], labels, within))
    return join(*parts)


def _small_point(values: pd.Series, judge: str, at: tuple[float, float]) -> Markup:
    """One of many: a dot without bars or name, which the hover text tells."""
    dot = tag("circle", cx=at[0], cy=at[1], r=4, class_="faint")
    return tag("g", tag("title", hover(values, judge)), dot, class_="pt rx", data_recipe=values["recipe"])


def _keep_clear(labels: Labels, values: pd.Series, judge: str, x: Scale, y: Scale) -> None:
    """A point and its error bars are no place for a label."""
    cx, cy = x(values["test_acc"]), y(values[judge])
    labels.keep_clear(cx - 7, cy - 7, cx + 7, cy + 7)
    for scale, key in ((x, "test_acc"), (y, judge)):
        if is_null(values[f"{key}_low"]):
            continue
        low, high = (scale(scale.clamp(values[f"{key}{end}"])) for end in ("_low", "_high"))
        if scale is x:
            labels.keep_clear(low, cy - 1, high, cy + 1)
        else:
            labels.keep_clear(cx - 1, high, cx + 1, low)


def _better_corner(x: Scale, y: Scale, spec: MetricSpec) -> Markup:
    if spec.better == "high":
        return label(x.end - 6, y.end + 14, "better \u2197", "soft small", "end")
    return label(x.end - 6, y.start - 8, "better \u2198", "soft small", "end")


def _point_label(
    name: str,
    colours: Colours,
    at: tuple[float, float],
    labels: Labels,
    within: tuple[float, float, float, float],
) -> Markup:
    shown = name if len(name) <= 34 else name[:33] + "\u2026"
    spot = labels.place(*at, text_width(shown), within)
    leader = line(*at, spot.x, spot.y - 4, "leader") if spot.leader else ""
    words = label(spot.x, spot.y, shown, "named halo", spot.anchor)
    return tag("g", leader, words, class_=colours.css_class(name), data_recipe=name)


def _point(summary: Summary, colours: Colours, judge: str, row: int, x: Scale, y: Scale) -> Markup:
    values, samples = summary.frame.loc[row], summary.samples[row]
    cx, cy = x(values["test_acc"]), y(values[judge])
    parts = [tag("title", hover(values, judge))]
    if not is_null(values["test_acc_low"]):
        ends = values["test_acc_low"], values["test_acc_high"]
        parts.append(whisker(x, ends, lambda value: (x(value), cy), upright=False))
    if not is_null(values[f"{judge}_low"]):
        ends = values[f"{judge}_low"], values[f"{judge}_high"]
        parts.append(whisker(y, ends, lambda value: (cx, y(value)), upright=True))
    for seed, sample in samples[judge].items():
        if seed in samples["test_acc"] and values[f"{judge}_n"] > 1:
            sx, sy = x(samples["test_acc"][seed].value), y(sample.value)
            parts.append(tag("circle", cx=sx, cy=sy, r=3, class_="faint"))
    parts.append(tag("circle", cx=cx, cy=cy, r=6, class_="ring" if values["is_baseline"] else "dot"))
    return tag("g", *parts, class_=f"pt {colours.css_class(values['recipe'])}", data_recipe=values["recipe"])


def whisker(
    scale: Scale, ends: tuple[float, float], at: Callable[[float], tuple[float, float]], *, upright: bool
) -> Markup:
    """An error bar, cut at the panel's edge: an arrow head says that it goes on."""
    (x1, y1), (x2, y2) = (at(scale.clamp(end)) for end in ends)
    parts = [line(x1, y1, x2, y2, "bar")]
    for value, (px, py), way in ((ends[0], (x1, y1), -1), (ends[1], (x2, y2), 1)):
        if scale.inside(value):
            cap = (px - 4, py, px + 4, py) if upright else (px, py - 4, px, py + 4)
            parts.append(line(*cap, "bar"))
        elif upright:
            parts.append(polyline([(px - 4, py + 6 * way), (px, py), (px + 4, py + 6 * way)], "bar"))
        else:
            parts.append(polyline([(px - 6 * way, py - 4), (px, py), (px - 6 * way, py + 4)], "bar"))
    return join(*parts)


