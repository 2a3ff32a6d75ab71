"""What each judge says, who is exposed, and a table cell's bar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, tag
from orchestrator.page.svg import Scale, figure, label, line, percent, text_width, x_axis
from orchestrator.reading.findings.shown import shown_rows
from orchestrator.reading.numbers.format import count, estimate, number
from orchestrator.reading.numbers.metrics import CLASS_METRICS, MetricSpec, spec_of
from orchestrator.reading.numbers.summary import Summary

WIDTH = 880.0


def judges(summary: Summary, colours: Colours) -> Markup | None:
    """Leak by judge: per recipe one dot per judge with its interval, joined by the gap; None with fewer than two."""
    keys = [key for key in CLASS_METRICS if key in summary.measured]
    if len(keys) < 2:
        return None
    frame, left, row_h = summary.frame.loc[shown_rows(summary)], _left_margin(summary), 34.0
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
    names = max(text_width(summary.frame.loc[row, "recipe"]) for row in shown_rows(summary))
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
    strips = [(row, _class_means(summary, row, key)) for row in shown_rows(summary)] if key else []
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
