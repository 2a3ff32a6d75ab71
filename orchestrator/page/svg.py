"""The few pieces every figure is drawn from: a linear scale, round ticks, a framed panel, text that dodges text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.page.markup import Markup, join, tag
from orchestrator.reading.numbers.format import minus

# Figures stand alone too (MLflow, a README), so their look travels with them. `--rc` is the recipe's colour.
STYLE = """
svg.fig{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif;
--ink:#1d1d1b;--soft:#65635d;--line:#d9d6ce;--paper:#fff;--accent:#b3261e;color:var(--ink)}
@media screen and (prefers-color-scheme:dark){svg.fig{--ink:#ecebe7;--soft:#a5a299;--line:#3c3b38;--paper:#181817;
--accent:#ff8a80}}
svg.fig text{fill:var(--ink);font-variant-numeric:tabular-nums}svg.fig .soft{fill:var(--soft)}
svg.fig .strong{font-weight:600}svg.fig .small{font-size:11.5px}svg.fig .grid{stroke:var(--line);stroke-width:1}
svg.fig .axis{stroke:var(--soft);stroke-width:1}svg.fig .guide{stroke:var(--soft);stroke-dasharray:2 4;fill:none}
svg.fig .halo{paint-order:stroke;stroke:var(--paper);stroke-width:6px;stroke-linejoin:round}
svg.fig .dot{fill:var(--rc)}svg.fig .ring{fill:var(--paper);stroke:var(--rc);stroke-width:2}

svg.fig .leader{stroke:var(--rc);stroke-width:1;opacity:.6}svg.fig .faint{fill:var(--rc);opacity:.4}
svg.fig .bar{stroke:var(--rc);stroke-width:1.6;fill:none}
svg.fig .behind{fill:var(--line)}svg.fig .thin{opacity:.55}
svg.fig .curve{stroke:var(--rc);stroke-width:2.2;fill:none;stroke-linejoin:round}
svg.fig .curve.dash{stroke-dasharray:5 4;stroke-width:1.6}
svg.fig .covered{fill:var(--line);opacity:.35}svg.fig .stairs{fill:none;stroke:var(--ink);stroke-width:1.4;opacity:.75}
svg.fig .asked{stroke:var(--accent);stroke-dasharray:6 4;stroke-width:1.4}
svg.fig .chosen{fill:none;stroke:var(--accent);stroke-width:2}svg.fig .pale{opacity:.5}svg.fig .tiny{font-size:10.5px}
svg.fig .told{fill:var(--ink);opacity:.8}svg.fig .untold{fill:var(--soft)}
svg.fig a.pt{text-decoration:none}svg.fig a:focus-visible{outline:2px solid var(--accent);outline-offset:3px}
svg.fig .named{fill:var(--rc);font-weight:600}svg.fig .path{stroke:var(--line);stroke-width:6;fill:none}
"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A linear map from data [lo, hi] to pixels [start, end]."""

    lo: float
    hi: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.lo) / (self.hi - self.lo) * (self.end - self.start)

    def inside(self, value: float) -> bool:
        return self.lo <= value <= self.hi

    def clamp(self, value: float) -> float:
        return min(self.hi, max(self.lo, value))


def ticks(lo: float, hi: float, about: int = 5) -> list[float]:
    """Round values within [lo, hi], roughly `about` of them."""
    if not hi > lo:
        return [lo]
    raw = (hi - lo) / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(lo / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(hi / step + 1e-9) + 1)]


def padded(values: Sequence[float], *, share: float = 0.12, least: float = 0.02) -> tuple[float, float]:
    """A domain around the values with room at both ends, never empty."""
    lo, hi = min(values), max(values)
    room = max((hi - lo) * share, least)
    return lo - room, hi + room


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where a text goes: its anchor point and text-anchor, and whether it is far enough away to need a leader."""

    x: float
    y: float
    anchor: str
    leader: bool


@dataclass
class Labels:
    """Places texts beside their points so that they do not cover each other, points or bars (greedy, first come)."""

    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)

    def keep_clear(self, left: float, top: float, right: float, bottom: float) -> None:
        self.boxes.append((left, top, right, bottom))

    def place(self, x: float, y: float, width: float, within: tuple[float, float, float, float]) -> Spot:
        """The nearest free spot for a text of `width` pixels at the point (x, y). within: left, top, right, bottom."""
        found = []
        for dy in (4, -10, 19, -25, 34, -40, 49, -55, 64, -70, 79):
            for dx, anchor in ((10, "start"), (-10, "end")):
                left = x + dx - (width if anchor == "end" else 0)
                box = (left, y + dy - 11, left + width, y + dy + 3)
                if box[0] >= within[0] and box[2] <= within[2] and box[1] >= within[1] and box[3] <= within[3]:
                    found.append((box, Spot(x=x + dx, y=y + dy, anchor=anchor, leader=abs(dy - 4) > 16)))
        outside = ((x, y - 7, x + width, y + 7), Spot(x=x + 10, y=y + 4, anchor="start", leader=False))
        free = (option for option in found if not any(_overlap(option[0], other) for other in self.boxes))
        box, spot = next(free, found[0] if found else outside)
        self.boxes.append(box)
        return spot


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def text_width(text: str, size: float = 13) -> float:
    """Width of a bold text in pixels, generous enough to keep labels apart."""
    return sum(0.38 if c in "iljt.,:;|! '" else 1.0 if c in "mwMW" else 0.62 for c in text) * size


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def label(x: float, y: float, text: str, class_: str | None = None, anchor: str = "start") -> Markup:
    return tag("text", text, x=float(x), y=float(y), class_=class_, text_anchor=None if anchor == "start" else anchor)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def percent(value: float) -> str:
    """A tick of a fraction: `40`, `2.5`."""
    return minus(f"{round(100 * value, 6):g}")


def plain(value: float) -> str:
    return minus(f"{round(value, 9):g}")


def x_axis(x: Scale, y: Scale, shown: Callable[[float], str], title: str, about: int = 5) -> Markup:
    """Ticks below a panel, and what they mean."""
    marks = [label(x(value), y.start + 18, shown(value), "soft small", "middle") for value in ticks(x.lo, x.hi, about)]
    base = line(x.start, y.start, x.end, y.start, "axis")
    return join(base, *marks, label((x.start + x.end) / 2, y.start + 37, title, "soft", "middle") if title else "")


def y_axis(x: Scale, y: Scale, shown: Callable[[float], str], about: int = 5, *, numbers: bool = True) -> Markup:
    """Grid lines across a panel with their values at the left."""
    parts = []
    for value in ticks(y.lo, y.hi, about):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        if numbers:
            parts.append(label(x.start - 7, y(value) + 4, shown(value), "soft small", "end"))
    return join(*parts)


def figure(width: float, height: float, title: str, *children: Markup) -> Markup:
    """A figure that scales with the page; `title` is read aloud in its place."""
    return tag(
        "svg",
        *children,
        class_="fig",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        xmlns="http://www.w3.org/2000/svg",
        style=f"max-width:{width:g}px",
    )


def standalone(drawing: Markup, colours: str) -> str:
    """The figure as an SVG file of its own, with its style inside."""
    inside = drawing.index(">") + 1
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing[:inside]}<style>{STYLE}{colours}</style>{drawing[inside:]}'
    )
