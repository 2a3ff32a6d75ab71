"""The accuracy-leak plot, for all of its uses: the frontier, one attack, one family of defenses, the best of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.page.drawing.canvas import (
    ACCENT,
    INK,
    LINE,
    PAPER,
    SOFT,
    Canvas,
    note,
    percent,
    percent_sign,
    plain,
    words_for,
)
from smoothsweep.orchestrator.page.figures.labels import Labels, text_width
from smoothsweep.orchestrator.page.figures.naming import Named, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = ("o", "s", "D", "^", "v", "*", "P", "X", "p", ">", "h", "<", "d", "8", "H", (4, 1, 0), (6, 1, 0))
"""Marks that tell families apart without their colours, in the order of the families."""


def mark_of(family: int) -> str | tuple[int, int, int]:
    """The mark of the family at this place.

    Where the marks are used up they begin anew one further on: the colours begin anew as well, and no two families
    share both.
    """
    return SHAPES[(family + family // len(SHAPES)) % len(SHAPES)]


Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One recipe: x is its test accuracy, y its leak, with their intervals where known.

    Attributes:
        name: Drawn beside it, if any.
        seeds: The places of single seeds.
        small: One of many, without bars.
        chosen: Drawn with a ring around it.
    """

    recipe: str
    x: float
    y: float
    colour: str
    words: str
    x_ends: Ends | None = None
    y_ends: Ends | None = None
    name: str = ""
    shape: int = 0
    hollow: bool = False
    small: bool = False
    chosen: bool = False
    link: str = ""
    seeds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points joined in order."""

    spots: tuple[tuple[float, float], ...]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot.

    Attributes:
        x, y: The ranges of its axes.
        guide: Where dotted lines cross, the reference.
        asked: An accuracy with its words.
        stairs: The frontier, most accurate recipe first.
        control: The most that a judge credits to a control.
    """

    title: str
    spec: Metric
    points: tuple[Point, ...]
    x: Ends
    y: Ends
    curves: tuple[Curve, ...] = ()
    guide: tuple[float, float] | None = None
    asked: tuple[float, str] | None = None
    stairs: tuple[tuple[float, float], ...] = ()
    control: tuple[float, str] | None = None
    colour: str = INK
    shape: int | None = None


def plot(
    panels: Sequence[Panel | None], width: float, height: float, title: str = "", *, across: int = 1
) -> Canvas | None:
    """Panels in rows of `across`, each `width` by `height`; None where there are none."""
    known = [panel for panel in panels if panel is not None]
    if not known:
        return None
    across = min(across, len(known))
    title = title or f"Test accuracy against leak. {known[0].title}"
    canvas = Canvas(across * width, -(-len(known) // across) * height, title)
    for index, panel in enumerate(known):
        draw(canvas, panel, index % across * width, index // across * height, width, height)
    return canvas


def draw(canvas: Canvas, panel: Panel, left: float, top: float, width: float, height: float) -> None:
    """The panel between these pixels of the canvas."""
    axes = canvas.axes(left + 48, top + 30, left + width - 12, top + height - 44)
    axes.set(xlim=panel.x, ylim=panel.y)
    axes.locator_params(nbins=5 if width < 400 else 7)
    axes.xaxis.set_major_formatter(percent)
    axes.yaxis.set_major_formatter(percent_sign if panel.spec.unit == "percent" else plain)
    axes.set_xlabel("test accuracy, %", fontsize=12, color=SOFT)
    lines, size = _title_lines(panel.title, width)
    shift = (0 if panel.shape is None else 18, 12 if len(lines) == 1 else 3)
    note(axes, "\n".join(lines), (0, 1), shift, place="frame", size=size, colour=panel.colour, bold=True)
    if panel.shape is not None:
        axes.plot(
            [0.012],
            [1 + 17 / (height - 74)],
            marker=mark_of(panel.shape),
            ls="",
            color=panel.colour,
            ms=8,
            transform=axes.transAxes,
            clip_on=False,
        )
    better = "better \u2198" if panel.spec.better == "low" else "better \u2197"
    note(axes, better, (1, 1), (0, 12), place="frame", ha="right")
    drawing = _Drawing(canvas=canvas, axes=axes, panel=panel)
    drawing.background()
    for point in panel.points:
        drawing.point(point)
    drawing.names()


def _title_lines(title: str, width: float) -> tuple[list[str], float]:
    """The title where it leaves room for the corner's word, and its size: on one line if it can be, else on smaller
    ones, two at most, shortened at need."""
    room = width - 120  # both margins, and the corner's word
    if text_width(title, 12.5) <= room:
        return [words_for(title)], 12.5
    words = title.split()
    first = _fitting(words, room)
    rest, fitting = words[first:], _fitting(words[first:], room)
    if fitting < len(rest):
        fitting = _fitting(rest, room - text_width("\u2026", 10))
        rest = [*rest[:fitting], "\u2026"]
    return [words_for(" ".join(line)) for line in (words[:first], rest) if line], 10


def _fitting(words: Sequence[str], room: float) -> int:
    """How many of the words the smaller line holds, one at least."""
    fitting = (n for n in range(len(words), 1, -1) if text_width(" ".join(words[:n]), 10) <= room)
    return next(fitting, 1)


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    """A panel in the making; labels: where its names may not lie."""

    canvas: Canvas
    axes: Axes
    panel: Panel
    labels: Labels = field(default_factory=Labels)

    def background(self) -> None:
        """Lines that say what points are to be held against."""
        axes, panel = self.axes, self.panel
        if panel.stairs:
            high = panel.y[1] if panel.spec.better == "low" else panel.y[0]
            corners = [(panel.stairs[0][0], high)]
            for spot in panel.stairs:
                corners += [(spot[0], corners[-1][1]), spot]
            corners.append((panel.x[0], corners[-1][1]))
            axes.fill(*zip(*corners, (panel.x[0], high), strict=True), color=LINE, alpha=0.35, lw=0, gid="covered")
            axes.plot(*zip(*corners[1:], strict=True), color=INK, lw=1.4, alpha=0.75, gid="stairs")
            self._keep_clear(corners[1:])
        if panel.guide:
            axes.axvline(panel.guide[0], color=SOFT, lw=1, ls=(0, (2, 4)))
            axes.axhline(panel.guide[1], color=SOFT, lw=1, ls=(0, (2, 4)))
        if panel.asked and panel.x[0] <= panel.asked[0] <= panel.x[1]:
            axes.axvline(panel.asked[0], color=ACCENT, lw=1.4, ls=(0, (6, 4)))
            self._beside((panel.asked[0], panel.y[0]), panel.asked[1], above=8)
        if panel.control and panel.y[0] <= panel.control[0] <= panel.y[1]:
            axes.axhline(panel.control[0], color=SOFT, lw=1.2, ls=(0, (8, 3, 2, 3)))
            self._beside((panel.x[0], panel.control[0]), panel.control[1], above=4)
        for curve in panel.curves:
            look: dict[str, Any] = {"lw": 1.6, "ls": (0, (5, 4))} if curve.dashed else {"lw": 2.2}
            axes.plot(*zip(*curve.spots, strict=True), color=curve.colour, gid="curve", **look)
            self._keep_clear(curve.spots)

    def point(self, point: Point) -> None:
        """A recipe's mark with its bars; one that lies outside sits at the left edge."""
        inside, (x, y) = self.panel.x[0] <= point.x <= self.panel.x[1], self._held(point)
        px, py = self.axes.transData.transform((x, y))
        self.labels.mark(px, -py, 12 if point.chosen else 4 if point.small else 8)
        if not point.small:
            if inside and point.x_ends:
                self._bar(point, point.x_ends, self.panel.x, y, upright=False)
            if point.y_ends:
                self._bar(point, point.y_ends, self.panel.y, x, upright=True)
            if point.seeds:
                (seeds,) = self.axes.plot(
                    *zip(*point.seeds, strict=True), "o", ms=5, color=point.colour, alpha=0.4, mew=0
                )
                self.canvas.describe(seeds, recipe=point.recipe)
            if not inside:
                self.axes.plot([x], [y], "<", ms=5, color=point.colour, clip_on=False)
        if point.chosen:
            self.axes.plot([x], [y], "o", ms=21, mfc="none", mec=ACCENT, mew=2, clip_on=False)
        look: dict[str, Any] = (
            {"ms": 6.5, "mew": 0, "alpha": 0.55, "zorder": 2} if point.small else {"ms": 11, "mew": 2, "zorder": 4}
        )
        (mark,) = self.axes.plot(
            [x],
            [y],
            marker=mark_of(point.shape),
            ls="",
            mec=point.colour,
            clip_on=False,
            mfc=PAPER if point.hollow else point.colour,
            **look,
        )
        self.canvas.describe(mark, point.words, recipe=point.recipe, link=point.link)

    def names(self) -> None:
        """The names beside their points, the chosen one's first; an accuracy outside the panel stands in its name."""
        named = sorted((point for point in self.panel.points if point.name), key=lambda point: not point.chosen)
        labelled = [Named(point.recipe, self._text(point), *self._held(point), point.colour) for point in named]
        write_names(self.canvas, self.axes, self.labels, labelled)

    def _text(self, point: Point) -> str:
        inside = self.panel.x[0] <= point.x <= self.panel.x[1]
        return point.name if inside else f"{point.name} (at {100 * point.x:.1f}\u00a0%)"

    def _held(self, point: Point) -> tuple[float, float]:
        """Its place, at the panel's edge if it lies outside."""
        (left, right), (low, high) = self.panel.x, self.panel.y
        return min(max(point.x, left), right), min(max(point.y, low), high)

    def _bar(self, point: Point, ends: Ends, span: Ends, at: float, *, upright: bool) -> None:
        """An error bar, cut at the panel's edge, where an arrow head says that it goes on."""
        cut = [min(max(end, span[0]), span[1]) for end in ends]
        spots = [(at, end) for end in cut] if upright else [(end, at) for end in cut]
        look: dict[str, Any] = {"color": point.colour, "alpha": 0.6, "clip_on": False}
        (line,) = self.axes.plot(*zip(*spots, strict=True), lw=1.6, **look)
        self.canvas.describe(line, recipe=point.recipe)
        (x1, y1), (x2, y2) = self.axes.transData.transform(spots)
        self.labels.keep_clear(min(x1, x2) - 1, -max(y1, y2) - 1, max(x1, x2) + 1, -min(y1, y2) + 1)
        for end, spot, head in zip(ends, spots, "v^" if upright else "<>", strict=True):
            shape = ("_" if upright else "|") if span[0] <= end <= span[1] else head
            self.axes.plot([spot[0]], [spot[1]], shape, ms=7, **look)

    def _keep_clear(self, spots: Sequence[tuple[float, float]]) -> None:
        """No name on a line: a small box every few pixels of it."""
        for (x1, y1), (x2, y2) in pairwise(self.axes.transData.transform(spots)):
            steps = max(2, round(max(abs(x2 - x1), abs(y2 - y1)) / 8))
            for x, y in zip(np.linspace(x1, x2, steps), np.linspace(y1, y2, steps), strict=True):
                self.labels.keep_clear(x - 2, -y - 2, x + 2, -y + 2)

    def _beside(self, at: tuple[float, float], words: str, *, above: float) -> None:
        x, y = self.axes.transData.transform(at)
        self.labels.keep_clear(x, -y - above - 14, x + text_width(words, 11) + 10, -y)
        note(self.axes, words_for(words), at, (5, above))
