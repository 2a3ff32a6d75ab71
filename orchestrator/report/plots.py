"""The figures about leaks: accuracy against leak, what each judge says, who is exposed, and a table cell's bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from orchestrator.report.colours import Colours, numeric_order
from orchestrator.report.format import count, estimate, is_null, number
from orchestrator.report.markup import Markup, join, tag
from orchestrator.report.metrics import CLASS_METRICS, MetricSpec, spec_of
from orchestrator.report.summary import Summary
from orchestrator.report.svg import (
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

WIDTH = 880.0


def judges_shown(summary: Summary) -> list[str]:
    """The leak metrics that get a panel: the hit rates that were measured and the metric that decides."""
    judges = [key for key in CLASS_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in judges:
        judges.insert(0, summary.primary)
    return judges


PANEL_W, PANEL_H = 500.0, 390.0
"""One accuracy-leak panel with its title and axes."""


def leak_panels(summary: Summary, colours: Colours) -> list[list[Markup]]:
    """Test accuracy (x) against leak (y): one row of drawings per attack, one drawing per judge, each `PANEL_W` by
    `PANEL_H` with its origin at the top left. Empty where either was never measured."""
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
            panels.append(join(label(x.start, 16, head, "strong"), drawn, x_axis(x, y, percent, "test accuracy, %")))
        rows.append(panels)
    return rows


def accuracy_leak_grid(summary: Summary, colours: Colours) -> Markup | None:
    """The panels as separate figures in a grid, which narrow screens stack."""
    panels = [panel for row in leak_panels(summary, colours) for panel in row]
    figures = [figure(PANEL_W, PANEL_H, "Test accuracy against leak", panel) for panel in panels]
    return tag("div", *figures, class_="pair") if figures else None


def accuracy_leak(summary: Summary, colours: Colours) -> Markup | None:
    """The panels in one figure, for a file of its own."""
    rows = leak_panels(summary, colours)
    placed = [
        tag("g", panel, transform=f"translate({across * (PANEL_W + 20):g} {down * (PANEL_H + 20):g})")
        for down, row in enumerate(rows)
        for across, panel in enumerate(row)
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
    labels, corners = Labels(), (x.start, y.end - 12, x.end, y.start)
    for row in measured:
        _keep_clear(labels, frame.loc[row], judge, x, y)
    # The reference and the least leak get the free spots first.
    order = sorted(measured, key=lambda row: (not frame.loc[row, "is_baseline"], frame.loc[row, judge]))
    crowded = len(measured) > 14
    parts += [_point(summary, colours, judge, row, x, y) for row in measured]
    for rank, row in enumerate(order):
        if not crowded or rank < 6:
            parts.append(_point_label(frame.loc[row, "recipe"], colours, at[row], labels, corners))
    return join(*parts)


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
    parts = [tag("title", _hover(values, judge))]
    low, high = values["test_acc_low"], values["test_acc_high"]
    if not pd.isna(low):
        parts.append(_whisker(x, low, high, lambda value: (x(value), cy), upright=False))
    low, high = values[f"{judge}_low"], values[f"{judge}_high"]
    if not pd.isna(low):
        parts.append(_whisker(y, low, high, lambda value: (cx, y(value)), upright=True))
    for seed, sample in samples[judge].items():
        if seed in samples["test_acc"] and values[f"{judge}_n"] > 1:
            sx, sy = x(samples["test_acc"][seed].value), y(sample.value)
            parts.append(tag("circle", cx=sx, cy=sy, r=3, class_="faint"))
    parts.append(tag("circle", cx=cx, cy=cy, r=6, class_="ring" if values["is_baseline"] else "dot"))
    recipe = values["recipe"]
    return tag("g", *parts, class_=f"pt {colours.css_class(recipe)}", data_recipe=recipe)


def _whisker(scale: Scale, low: float, high: float, at: object, *, upright: bool) -> Markup:
    """An error bar, cut at the panel's edge: an arrow head says that it goes on."""
    parts = []
    (x1, y1), (x2, y2) = at(scale.clamp(low)), at(scale.clamp(high))
    parts.append(line(x1, y1, x2, y2, "bar"))
    for value, (px, py), outwards in ((low, (x1, y1), -1), (high, (x2, y2), 1)):
        if scale.inside(value):
            ends = (px - 4, py, px + 4, py) if upright else (px, py - 4, px, py + 4)
            parts.append(line(*ends, "bar"))
        elif upright:
            parts.append(polyline([(px - 4, py + 6 * outwards), (px, py), (px + 4, py + 6 * outwards)], "bar"))
        else:
            parts.append(polyline([(px - 6 * outwards, py - 4), (px, py), (px - 6 * outwards, py + 4)], "bar"))
    return join(*parts)


def _hover(values: pd.Series, judge: str) -> str:
    name = values["recipe"] + (f", {values['attack']}" if values["attack"] else "")
    pieces = [name]
    for key in ("test_acc", judge):
        spec = spec_of(key)
        shown = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {shown} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)


def judges(summary: Summary, colours: Colours) -> Markup | None:
    """Leak by judge: per recipe one dot per judge with its interval, joined by the gap; None with fewer than two."""
    keys = [key for key in CLASS_METRICS if key in summary.measured]
    if len(keys) < 2:
        return None
    frame, left, row_h = summary.frame, _left_margin(summary), 34.0
    top = 46.0
    height = top + len(frame) * row_h + len(summary.attacks) * 26 + 52
    x = Scale(lo=0, hi=1, start=left, end=WIDTH - 30)
    y = Scale(lo=0, hi=1, start=height - 48, end=top)
    parts = [_judge_key(x), *_vertical_grid(x, y), *_chance(summary, x, y)]
    at = top + 8
    for attack in summary.attacks:
        if attack:
            parts.append(label(0, at + 14, attack, "soft"))
        at += 26 if attack else 4
        for row in frame.index[frame["attack"] == attack]:
            parts.append(_judge_row(frame.loc[row], colours, keys, x, at + row_h / 2))
            at += row_h
    parts.append(x_axis(x, y, percent, "reconstructions taken for the attacked class, %"))
    return figure(WIDTH, height, "Leak of each recipe as seen by each judge", *parts)


def _judge_key(x: Scale) -> Markup:
    names = [spec_of(key).label for key in CLASS_METRICS]
    second = x.start + 30 + text_width(names[0])
    return tag(
        "g",
        tag("circle", cx=x.start + 6, cy=16, r=6, class_="dot"),
        label(x.start + 18, 20, names[0], "soft"),
        tag("circle", cx=second + 12, cy=16, r=5.5, class_="ring"),
        label(second + 24, 20, f"{names[1]} (trained on the same private images)", "soft"),
        class_="rx",
    )


def _left_margin(summary: Summary) -> float:
    names = max(text_width(name) * 1.06 for name in summary.recipes)
    return min(300.0, 24 + max(names, *(text_width(attack) for attack in summary.attacks)))


def _vertical_grid(x: Scale, y: Scale) -> list[Markup]:
    return [line(x(step / 5), y.start, x(step / 5), y.end, "grid") for step in range(6)]


def _chance(summary: Summary, x: Scale, y: Scale) -> list[Markup]:
    if not summary.judged_classes:
        return []
    share = 1 / summary.judged_classes
    return [
        line(x(share), y.start, x(share), y.end - 4, "guide"),
        label(x(share) + 4, y.end + 4, f"chance {number(spec_of('attack_acc1'), share)}", "soft small"),
    ]


def _judge_row(values: pd.Series, colours: Colours, keys: Sequence[str], x: Scale, y: float) -> Markup:
    parts = [label(x.start - 14, y + 4, values["recipe"], "named", "end")]
    seen = [key for key in keys if not pd.isna(values[key])]
    if len(seen) == 2:
        parts.append(line(x(values[seen[0]]), y, x(values[seen[1]]), y, "path"))
    for key, offset, look in zip(keys, (5, -5), ("dot", "ring"), strict=False):
        if key not in seen:
            continue
        hover, low, high = tag("title", _hover_one(values, key)), values[f"{key}_low"], values[f"{key}_high"]
        bar = "" if pd.isna(low) else line(x(low), y + offset, x(high), y + offset, "bar")
        parts.append(tag("g", hover, bar, tag("circle", cx=x(values[key]), cy=y, r=6, class_=look)))
    if not seen:
        parts.append(label(x.start + 8, y + 4, "not measured", "soft small"))
    return tag("g", *parts, class_=f"pt {colours.css_class(values['recipe'])}", data_recipe=values["recipe"])


def _hover_one(values: pd.Series, key: str) -> str:
    spec = spec_of(key)
    shown = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
    return f"{values['recipe']}, {spec.label}: {shown} (n = {count(int(values[f'{key}_n']), 'seed')})"


def exposure(summary: Summary, colours: Colours) -> Markup | None:
    """One dot per class at its own leak: an average of 20 % may hide a person recognised every time."""
    key = next((key for key in CLASS_METRICS if key in summary.measured), None)
    strips = [(row, _class_means(summary, row, key)) for row in range(len(summary.frame))] if key else []
    strips = [(row, means) for row, means in strips if means is not None]
    if not strips or max(len(means) for _, means in strips) < 3:
        return None
    left, row_h, top = _left_margin(summary), 62.0, 24.0
    headed = [attack for attack in summary.attacks if attack]
    height = top + len(strips) * row_h + len(headed) * 26 + 50
    x = Scale(lo=0, hi=1, start=left, end=WIDTH - 170)
    y = Scale(lo=0, hi=1, start=height - 46, end=top)
    tallest = max(int(np.bincount(_bins(means)).max()) for _, means in strips)
    parts, at, attack = [*_vertical_grid(x, y), label(x.end + 16, 12, "recognised more", "soft small")], top, ""
    parts.append(label(x.end + 16, 27, "often than not", "soft small"))
    for row, means in strips:
        if summary.frame.loc[row, "attack"] != attack:
            attack = summary.frame.loc[row, "attack"]
            parts.append(label(0, at + 16, attack, "soft"))
            at += 26
        parts.append(_strip(summary.frame.loc[row, "recipe"], means, colours, x, at + row_h - 10, tallest))
        at += row_h
    parts.append(x_axis(x, y, percent, f"a class's reconstructions recognised by the {spec_of(key).label}, %"))
    return figure(WIDTH, height, "Leak of every single class under each recipe", *parts)


def _class_means(summary: Summary, row: int, key: str) -> pd.Series | None:
    """Hit rate by class, the mean over the seeds; None where no class values are known."""
    known = [sample.by_class for sample in summary.samples[row][key].values() if sample.by_class is not None]
    return pd.concat(known, axis=1).mean(axis=1) if known else None


def _bins(means: pd.Series) -> np.ndarray:
    """Hit rates in steps of two per cent."""
    return np.round(means.to_numpy() * 50).astype(int)


def _strip(recipe: str, means: pd.Series, colours: Colours, x: Scale, base: float, tallest: int) -> Markup:
    """Dots of equal value are stacked, so that a pile reads as a count. tallest: the highest pile of the figure."""
    parts = [label(x.start - 14, base - 8, recipe, "named", "end"), line(x.start, base, x.end, base, "grid")]
    radius = min(4.0, max(1.5, 23 / tallest))
    step = min(2 * radius + 1, 46 / tallest)
    level: dict[int, int] = {}
    spec = spec_of(CLASS_METRICS[0])
    for (name, value), cell in sorted(zip(means.items(), _bins(means), strict=True), key=lambda item: item[0][1]):
        level[cell] = level.get(cell, 0) + 1
        y = base - radius - 1 - (level[cell] - 1) * step
        title = tag("title", f"{name}: {number(spec, value)}")
        parts.append(tag("circle", title, cx=x(cell / 50), cy=y, r=radius, class_="dot"))
    often = int((means > 0.5).sum())
    parts.append(label(x.end + 16, base - 4, f"{often} of {len(means)}", "strong"))
    return tag("g", *parts, class_=f"pt {colours.css_class(recipe)}", data_recipe=recipe)


def micro(spec: MetricSpec, mean: float, low: float, high: float, domain: tuple[float, float]) -> Markup:
    """A table cell's dot and interval on the scale its column shares."""
    x = Scale(lo=domain[0], hi=domain[1], start=5, end=91)
    parts = [line(5, 7, 91, 7, "track")]
    if not pd.isna(low):
        parts.append(line(x(x.clamp(low)), 7, x(x.clamp(high)), 7, "bar"))
    parts.append(tag("circle", cx=x(x.clamp(mean)), cy=7, r=3.6, class_="dot"))
    return tag("svg", *parts, class_="micro", viewBox="0 0 96 14", width=96, height=14, aria_hidden="true")
