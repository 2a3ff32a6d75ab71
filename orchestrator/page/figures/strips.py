"""Recipes below each other: what each judge says of them, who is exposed, and which pairs differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, CLOSED_SET, metric_of
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.orchestrator.page.drawing.canvas import INK, LINE, PAPER, SOFT, Canvas, note, percent, words_for
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.labels import LINE_HEIGHT, text_width
from smoothsweep.orchestrator.result.display import LONG, shown_rows
from smoothsweep.orchestrator.result.format import count, number
from smoothsweep.orchestrator.result.leaks import AMONG, Exposed, among_words, exposed, rate_words
from smoothsweep.orchestrator.result.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 880.0, 34.0
MARKS = ("o", "o", "D", "s")
"""Marks of judges: filled for the first, empty for the others."""


def judges(summary: Summary, colours: Colours) -> Canvas | None:
    """Per recipe one dot per judge with its interval, joined by the gap; None with fewer than two judges."""
    keys = [key for key in CLOSED_SET if key in summary.measured]
    if len(keys) < 2:
        return None
    title = "Leak of each recipe as seen by each judge"
    canvas, axes, places = _rows(
        summary, colours, shown_rows(summary), title, "reconstructions taken for the attacked class, %", ROW
    )
    _judges_key(axes, keys, summary)
    step = 0.3 / (len(keys) - 1)
    for row, y in places.items():
        values, colour = summary.cells[row], colours.of(summary.cells[row]["recipe"])
        seen = [key for key in keys if not pd.isna(values[key])]
        axes.plot([values[key] for key in seen], [y] * len(seen), color=LINE, lw=6, zorder=1)
        for place, key in enumerate(keys):
            if key in seen:
                off, face, mark = step * place - 0.15, PAPER if place else colour, MARKS[place % len(MARKS)]
                estimate, recipe = summary.estimate(row, key), values["recipe"]
                axes.plot([estimate.low, estimate.high], [y + off] * 2, color=colour, lw=1.6, zorder=2)
                (dot,) = axes.plot(
                    [estimate.value], [y], mark, ms=11, mfc=face, mec=colour, mew=2, zorder=3, clip_on=False
                )
                leak_text = f"{summary.value_text(row, key)} (n = {count(int(estimate.n), 'seed')})"
                canvas.describe(dot, f"{recipe}, {summary.metric(key).label}: {leak_text}", recipe=recipe)
        if not seen:
            axes.text(0.01, y, "not measured", fontsize=11, color=SOFT, va="center")
    return canvas


def _named(summary: Summary, key: str) -> str:
    judge = metric_of(key).judge
    learnt = judge is not None and JUDGES[judge].learns_private
    same = " (trained on the same private images)" if learnt else ""
    return f"{summary.metric(key).label}{same}"


def _judges_key(axes: Axes, keys: Sequence[str], summary: Summary) -> None:
    """Which dot is whose, and what chance would give."""
    key = [
        axes.plot([], [], mark, ms=11, color=SOFT, mfc=PAPER if place else SOFT, mew=2, label=_named(summary, judge))[0]
        for place, (judge, mark) in enumerate(zip(keys, cycle(MARKS), strict=False))
    ]
    axes.legend(
        handles=key,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=2,
        frameon=False,
        fontsize=12,
        labelcolor=SOFT,
        borderaxespad=0,
        handletextpad=0,
    )
    if summary.judged_classes:
        chance = 1 / summary.judged_classes
        axes.axvline(chance, color=SOFT, lw=1, ls=(0, (2, 4)))
        note(axes, f"chance {number(metric_of(keys[1]), chance)}", (chance, 1), (4, -8), place="up")


def exposure(summary: Summary, colours: Colours) -> Canvas | None:
    """One dot per class at its own shrunk leak: an average of 20 % may hide a person matched every time."""
    key = next((key for key in CLASS_METRICS if key in summary.measured), None)
    strips = {row: exposed(summary, row, key) for row in shown_rows(summary)} if key else {}
    strips = {row: people for row, people in strips.items() if people}
    if key is None or not strips or max(map(len, strips.values())) < 3:
        return None
    spec = metric_of(key)
    what = f"a class's reconstructions matched by the {spec.label}, %"
    title = "Leak of every single class under each recipe"
    canvas, axes, places = _rows(summary, colours, list(strips), title, what, 58, 150)
    note(axes, "matched more\noften than not", (1, 1), (14, -12), place="frame")
    tallest = max(int(np.bincount(_bins(people)).max()) for people in strips.values())
    for row, y in places.items():
        recipe, people = summary.frame.loc[row, "recipe"], sorted(strips[row], key=lambda person: person.rate)
        level: dict[int, int] = {}
        for person, cell in zip(people, _bins(people), strict=True):
            level[cell] = level.get(cell, 0) + 1  # dots of equal value are stacked: a pile reads as a count
            height = y + 0.35 - 0.8 * (level[cell] - 0.5) / max(tallest, 6)
            (dot,) = axes.plot(
                [cell / 50],
                [height],
                "o",
                ms=min(8, max(3, 46 / tallest)),
                mew=0,
                clip_on=False,
                color=colours.of(recipe),
            )
            tooltip = f"{person.key}: {rate_words(spec, person)}, among the {AMONG} most exposed: {among_words(person)}"
            canvas.describe(dot, tooltip, recipe=recipe)
        often = f"{sum(person.rate > 0.5 for person in people)} of {len(people)}"
        note(axes, often, (1, y), (14, -4), place="across", size=12.5, colour=INK, bold=True)
    return canvas


def _rows(
    summary: Summary, colours: Colours, rows: Sequence[int], title: str, what: str, height: float, right: float = 30
) -> tuple[Canvas, Axes, dict[int, float]]:
    """A panel with a line per row of the frame, grouped by attack, from 0 to 100 %; where each row lies."""
    frame, lines, places = summary.frame, [], {}
    for attack in dict.fromkeys(frame.loc[rows, "attack"]):
        lines += [(None, attack)] if attack else []
        lines += [(row, frame.loc[row, "recipe"]) for row in rows if frame.loc[row, "attack"] == attack]
    written = {name: wrap(words_for(name), LONG) for row, name in lines if row is not None}
    left = 24 + max(text_width(line, 12.5) for name in written for line in written[name])
    height = max(height, 8 + LINE_HEIGHT * max(map(len, written.values())))
    canvas = Canvas(WIDTH, 84 + height * len(lines), title)
    axes = canvas.axes(left, 34, WIDTH - right, 34 + height * len(lines), grid="x")
    axes.set(xlim=(0, 1), ylim=(len(lines) - 0.5, -0.5), yticks=[])
    axes.xaxis.set_major_formatter(percent)
    axes.set_xlabel(what, fontsize=12, color=SOFT)
    for y, (row, name) in enumerate(lines):
        look: dict[str, Any] = {"place": "across", "size": 12.5, "va": "center"}
        if row is None:
            note(axes, words_for(name), (0, y), (-left, 4), **look)
            continue
        places[row] = float(y)
        label = "\n".join(written[name])
        note(axes, label, (0, y), (-14, 0), ha="right", bold=True, colour=colours.of(name), **look)
    return canvas, axes, places


def _bins(people: Sequence[Exposed]) -> np.ndarray:
    """Their rates in steps of two per cent."""
    return np.round(50 * np.array([person.rate for person in people])).astype(int)
