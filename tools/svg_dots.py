"""Draw dots with intervals as SVG: readable on a phone, on a light and on a dark background, without colour vision.

The drawing is 380 units wide, the width of a phone, and every label has a line of its own above its dots. A series has
a colour (after Okabe and Ito) and a shape. The same input gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

WIDTH = 380
LEFT, RIGHT = 16, 364
LINE = 16
"""Height of a line of text."""
LABEL = 58
"""Characters of a line of a label."""
LONG = 20
"""Dots of a panel above which its axis has its numbers at either end."""
PITCH = 11
"""Distance between the dots of two series of a row."""

STYLE = """
.back{fill:#fff}text{font:12px sans-serif;fill:#1f2328}.axis{font-weight:bold}.grid{stroke:#d8dee4}.zero{stroke:#57606a}
.s0{fill:#0072b2;stroke:#0072b2}.s1{fill:#d55e00;stroke:#d55e00}.s2{fill:#007a5a;stroke:#007a5a}
.s3{fill:#a3458b;stroke:#a3458b}.s4{fill:#333;stroke:#333}.s5{fill:#8a6d00;stroke:#8a6d00}
@media (prefers-color-scheme:dark){.back{fill:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}.zero{stroke:#8b949e}
.s0{fill:#56b4e9;stroke:#56b4e9}.s1{fill:#ff8c42;stroke:#ff8c42}.s2{fill:#2fcb9b;stroke:#2fcb9b}
.s3{fill:#e39bc9;stroke:#e39bc9}.s4{fill:#eee;stroke:#eee}.s5{fill:#f0e442;stroke:#f0e442}}
"""
SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5l5 9h-10z", "M0-5l5 5-5 5-5-5z", "M0 5l5-9h-10z")
SHAPES += ("M-4-1h3v-3h2v3h3v2h-3v3h-2v-3h-3z",)
"""Paths around the middle of a dot: circle, square, triangle, diamond, triangle on its tip, cross."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """An estimate; `low` and `high` are the ends of its interval, None without one."""

    middle: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A label and a point for each series; None where a series has none."""

    label: str
    points: Sequence[Point | None]


@dataclass(frozen=True, kw_only=True)
class Dots:
    """One panel: rows over an axis. `low` and `high` are the axis's ends, found from the points where None."""

    axis: str
    names: Sequence[str]
    rows: Sequence[Row]
    low: float | None = None
    high: float | None = None


def drawing(panels: Sequence[Dots]) -> str:
    """All panels below one another, as the text of an SVG file."""
    parts: list[str] = []
    top = 8.0
    for panel in panels:
        drawn, top = _panel(panel, top)
        parts += drawn
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:g}" width="{WIDTH}" height="{top:g}">'
    return "\n".join([head, f"<style>{STYLE}</style>", '<rect class="back" width="100%" height="100%"/>', *parts]) + (
        "\n</svg>\n"
    )


def _panel(panel: Dots, top: float) -> tuple[list[str], float]:
    low, high, step = _range(panel)
    parts = [_text(LEFT - 8, top + 12, panel.axis, bold=True)]
    top += LINE + 4
    if len(panel.names) > 1:
        legend, top = _legend(panel.names, top)
        parts += legend
    ticks = [low + step * index for index in range(round((high - low) / step) + 1)]
    if len(panel.rows) * len(panel.names) > LONG:
        parts += _numbers(ticks, top - 2)
        top += LINE
    begin, rows = top, []
    for row in panel.rows:
        drawn, top = _row(row, top, low, high)
        rows += drawn
    for tick in ticks:
        x = position(tick, low, high)
        kind = "zero" if tick == 0 and low < 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{x:.1f} {begin:g}V{top:g}"/>')
    parts += _numbers(ticks, top)
    top += 2 * LINE
    if any(point and point.low is not None for row in panel.rows for point in row.points):
        parts.append(_text(LEFT - 8, top - 2, "dot: mean or estimate; line: 95 % interval"))
        top += LINE
    return parts + rows, top


def _numbers(ticks: Sequence[float], top: float) -> list[str]:
    """The numbers of an axis, below the height `top`."""
    words = [f"{tick:.10g}".replace("-", "−") for tick in ticks]
    places = [position(tick, ticks[0], ticks[-1]) for tick in ticks]
    return [_text(x, top + 13, word, anchor="middle") for x, word in zip(places, words, strict=True)]


def position(value: float, low: float, high: float) -> float:
    """Where a value stands on an axis from `low` to `high`, in units of the drawing."""
    return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)


def _range(panel: Dots) -> tuple[float, float, float]:
    """The ends of the axis and the distance of its ticks."""
    points = [point for row in panel.rows for point in row.points if point]
    ends = [end for point in points for end in (point.middle, point.low, point.high) if end is not None]
    low = min(ends) if panel.low is None else panel.low
    high = max(ends) if panel.high is None else panel.high
    rough = (high - low or 1.0) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step


def _legend(names: Sequence[str], top: float) -> tuple[list[str], float]:
    parts, x = [], float(LEFT)
    for index, name in enumerate(names):
        width = 6.4 * len(name) + 28
        if x > LEFT and x + width > WIDTH:
            x, top = float(LEFT), top + LINE
        parts += [_dot(index, x, top + 8), _text(x + 9, top + 12, name)]
        x += width
    return parts, top + LINE + 4


def _row(row: Row, top: float, low: float, high: float) -> tuple[list[str], float]:
    parts = []
    for line in wrap(row.label, LABEL):
        parts.append(_text(LEFT - 8, top + 12, line))
        top += LINE
    top += 4
    for index, point in enumerate(row.points):
        if point is None:
            continue
        if point.low is not None and point.high is not None:
            begin, end = (position(value, low, high) for value in (point.low, point.high))
            parts.append(f'<path class="s{index}" stroke-width="2" d="M{begin:.1f} {top + 2:g}H{end:.1f}"/>')
        parts.append(_dot(index, position(point.middle, low, high), top + 2))
        top += PITCH
    return parts, top + 2


def _dot(series: int, x: float, y: float) -> str:
    return f'<path class="s{series}" transform="translate({x:.1f} {y:g})" d="{SHAPES[series]}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' class="axis"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'
