"""What every figure is drawn with: one style, one colour per recipe, one canvas, one placer of names.

matplotlib draws everything, because a page that works offline must bring what draws it: a JavaScript chart library
would add a megabyte or more to every report and could not draw the PNG that MLflow and a README show. The same data
give the same bytes: identifiers are salted, dates left out. Text stays text. Marks carry their words as `<title>`;
those that lead to a row of a table are links, which the keyboard reaches.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from markupsafe import Markup

from smoothsweep.core.text import escape_controls, minus
from smoothsweep.orchestrator.result.defenses import NONE
from smoothsweep.orchestrator.result.display import LONG
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK, SOFT, LINE, PAPER, ACCENT = "#1d1d1b", "#65635d", "#d9d6ce", "#ffffff", "#b3261e"
DARK = {INK: "#ecebe7", SOFT: "#a5a299", LINE: "#3c3b38", PAPER: "#181817", ACCENT: "#ff8a80"}
"""Colour on paper -> on a dark screen."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "smoothsweep",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "path.simplify": False,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
    "axes.edgecolor": SOFT,
    "axes.axisbelow": True,
    "axes.labelcolor": SOFT,
    "axes.labelsize": 12,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "grid.color": LINE,
    "grid.linewidth": 1,
    **{f"{axis}tick.{key}.size": 0 for axis in "xy" for key in ("major", "minor")},
    **{f"{axis}tick.major.pad": 5 for axis in "xy"},
    **{f"{axis}tick.labelcolor": SOFT for axis in "xy"},
    **{f"{axis}tick.labelsize": 11 for axis in "xy"},
}
KEY: Any = {"frameon": False, "fontsize": 10.5, "labelcolor": INK, "borderaxespad": 0}
"""How a panel's key looks."""
DOTTED, DASHED = (0, (2, 4)), (0, (5, 4))
SVG = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", SVG)
XLINK = "{http://www.w3.org/1999/xlink}href"
PX = 72  # matplotlib's SVG counts 72 units to the inch: with as many dots, its pixels and points are ours
ACROSS: Any = ("axes fraction", "data")
"""`xycoords` of a note whose place counts from the panel's left edge."""
LINE_HEIGHT = 14.0
"""Pixels from one line of a name to the next."""
CROWD = 8
"""Names beyond which they are written smaller."""

Box = tuple[float, float, float, float]
"""In pixels: left, top, right, bottom of a panel, counted from the top left; of a name left, bottom, right, top."""


class Canvas:
    """A figure of `width` by `height` pixels; `title` is read aloud in its place."""

    def __init__(self, width: float, height: float, title: str) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # heavy: only where a picture is drawn
        from matplotlib.figure import Figure

        self.width, self.height, self.title = width, height, title
        self.figure = Figure(figsize=(width / PX, height / PX), dpi=PX)
        FigureCanvasAgg(self.figure)
        self._tooltips: dict[str, tuple[str, str, str]] = {}

    def axes(self, box: Box, *, title: str = "", x: str = "", y: str = "", percent: str = "", grid: Any = "y") -> Axes:
        """A panel between these pixels, left, top, right, bottom, counted from the top left.

        x, y: what its axes show. percent: the axes whose fractions are written in per cent. grid: the axis with lines
        across, or None.
        """
        from matplotlib import rc_context

        (left, top, right, bottom), wide, high = box, self.width, self.height
        place = (left / wide, 1 - bottom / high, (right - left) / wide, (bottom - top) / high)
        with rc_context(STYLE):
            axes = self.figure.add_axes(place)
            axes.patch.set_visible(False)
            axes.set_title(clean(title))
            axes.set(xlabel=clean(x), ylabel=clean(y))
            axes.xaxis.set_major_formatter(as_percent if "x" in percent else plain)
            axes.yaxis.set_major_formatter(as_percent if "y" in percent else plain)
            if grid:
                axes.grid(axis=grid)
        return axes

    def describe(self, artist: Artist, words: str = "", *, recipe: str = "", link: str = "") -> None:
        """Let a mark say something, belong to a recipe, lead somewhere."""
        gid = f"told-{len(self._tooltips)}"
        artist.set_gid(gid)
        self._tooltips[gid] = words, recipe, link

    def svg(self) -> Markup:
        """SVG for a page: colours follow the screen's scheme, every mark has its words."""
        return Markup(ElementTree.tostring(_themed(self._tree()), encoding="unicode"))

    def file(self, name: str) -> bytes:
        """A file of its own, by the ending of its name: PNG for MLflow and a README, PDF for a paper, where lines and
        letters stay lines and letters, SVG."""
        if name.endswith(".png"):
            return self._saved("png", dpi=160, facecolor="white")
        if name.endswith(".pdf"):
            empty = dict.fromkeys(("Creator", "Producer", "CreationDate"))
            return self._saved("pdf", dpi=160, metadata={**empty, "Title": clean(self.title)}, transparent=True)
        return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(self._tree(), encoding="utf-8")

    def _saved(self, kind: str, **options: Any) -> bytes:
        from matplotlib import rc_context

        buffer = io.BytesIO()
        with rc_context(STYLE):
            self.figure.savefig(buffer, format=kind, **options)
        return buffer.getvalue()

    @cached_property
    def _drawn(self) -> bytes:
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        return self._saved("svg", dpi=100, metadata=empty, transparent=True)

    def _tree(self) -> ElementTree.Element:
        tree = ElementTree.fromstring(self._drawn)
        for metadata in tree.findall(f"{{{SVG}}}metadata"):
            tree.remove(metadata)
        _write_tooltips(tree, self._tooltips)
        _tidy(tree, f"f{crc32((self.title + repr(sorted(self._tooltips.items()))).encode('utf-8', 'replace')):x}")
        for name in ("width", "height", "version"):
            tree.attrib.pop(name, None)
        tree.attrib |= {
            "class": "fig",
            "role": "img",
            "aria-label": clean(self.title),
            "style": f"max-width:{self.width:g}px;--w:{self.width:g}px",
        }
        return tree


def note(axes: Axes, words: str, at: tuple[float, float], shift: tuple[float, float] = (0, 0), **look: Any) -> None:
    """Words beside a place of a panel, `shift` pixels to the right of it and above."""
    usual: dict[str, Any] = {"fontsize": 11, "color": SOFT, "textcoords": "offset points"}
    axes.annotate(clean(words), at, shift, **(usual | look))


def _write_tooltips(tree: ElementTree.Element, tooltips: Mapping[str, tuple[str, str, str]]) -> None:
    """Titles, recipes and links for the groups that stand for marks."""
    for parent in list(tree.iter()):
        for place, child in enumerate(list(parent)):
            if child.get("id") not in tooltips:
                continue
            words, recipe, to = tooltips[child.get("id", "")]
            mark = child
            if to:
                parent[place] = mark = ElementTree.Element(f"{{{SVG}}}a", {"href": to})
                mark.append(child)
            mark.set("class", "pt")
            if recipe:
                mark.set("data-recipe", clean(recipe))
            if words:
                if not to:
                    mark.set("tabindex", "0")
                title = ElementTree.Element(f"{{{SVG}}}title")
                title.text = clean(words)
                mark.insert(0, title)


def _tidy(tree: ElementTree.Element, prefix: str) -> None:
    """Only identifiers that something refers to stay, and each page holds each once; numbers lose useless digits."""
    used = set()
    for node in tree.iter():
        node.attrib |= {"href": node.attrib.pop(XLINK)} if XLINK in node.attrib else {}
        for name, value in node.attrib.items():
            if name == "href" and value.startswith("#row"):
                continue
            match = re.fullmatch(r"url\(#(.+)\)|#(.+)", value)
            if match:
                used.add(match[1] or match[2])
                node.set(name, value.replace("#", f"#{prefix}-", 1))
            elif name in ("d", "x", "y", "transform"):
                node.set(name, re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}", value).replace("\n", ""))
    for node in tree.iter():
        name = node.attrib.pop("id", None)
        if name in used:
            node.set("id", f"{prefix}-{name}")


def _themed(tree: ElementTree.Element) -> ElementTree.Element:
    """Colours by name, so that a dark screen may set them otherwise."""
    for node in tree.iter():
        if "style" in node.attrib:
            named = re.sub(r"(?<=: )#([0-9a-f]{6})", r"var(--c\1,#\1)", node.attrib["style"])
            node.set("style", re.sub(r"(font: .*?px|font: \w+ .*?px) [^;]*", r"\1 var(--sans)", named))
    return tree


def clean(text: str) -> str:
    """Text that a drawing may hold: control characters and marks of direction as escapes."""
    return escape_controls(text.encode("utf-8", "replace").decode("utf-8"))


def plain(value: float, _: float) -> str:
    """A number at a tick."""
    return minus(f"{value:g}")


def as_percent(value: float, _: float) -> str:
    """A fraction at a tick, in per cent."""
    return minus(f"{round(100 * value, 6):g}")


def limits(values: Sequence[float], *, share: float = 0.12, least: float = 0.02) -> tuple[float, float]:
    """A domain around the values with room at both ends, never empty."""
    lo, hi = min(values), max(values)
    room = max((hi - lo) * share, least)
    return lo - room, hi + room


def fold(words: str, room: float, measure: Callable[[str], float], most: int) -> list[str]:
    """The words on up to `most` lines that are no wider than `room` by `measure`, cut at need."""
    words = " ".join(words.split())  # a name's own spaces do not break, and so it would break within a word
    for letters in range(max(1, min(len(words), 200)), 0, -1):  # no room of ours holds more
        lines = wrap(words, letters)
        if len(lines) > most:
            lines = [*lines[: most - 1], lines[most - 1][: letters - 1] + "\u2026"]
        if all(measure(line) <= room for line in lines):
            return lines
    return ["\u2026"]


def text_width(text: str, size: float = 12) -> float:
    """Width of a bold text in pixels, generous enough to keep texts apart."""
    return sum(0.38 if c in "iljt.,:;|! '" else 1.0 if c in "mwMW" else 0.64 for c in text) * size


@dataclass
class Labels:
    """Places of names in a panel. Greedy: the first have the best. A name never covers another name or a point.

    Attributes:
        boxes: Bars and lines, which a name covers only where it must.
        marks: The points.
        names: Boxes of the names that have been placed.
        leaders: Small boxes along the lines from points to their names.
    """

    boxes: list[Box] = field(default_factory=list)
    marks: list[Box] = field(default_factory=list)
    names: list[Box] = field(default_factory=list)
    leaders: list[Box] = field(default_factory=list)

    def mark(self, x: float, y: float, reach: float) -> None:
        """A point, so many pixels around its middle."""
        self.marks.append((x - reach, y - reach, x + reach, y + reach))

    def keep_clear(self, axes: Axes, spots: Any) -> None:
        """A line through these places of the axes: boxes around parts of it, none of them thick."""
        for start, end in pairwise(axes.transData.transform(spots)):
            ends = np.linspace(start, end, 2 + int(abs(end - start).min() / 8))
            self.boxes += [(*(np.minimum(a, b) - 2), *(np.maximum(a, b) + 2)) for a, b in pairwise(ends)]

    def place(self, x: float, y: float, width: float, height: float, within: Box) -> tuple[int, int, bool] | None:
        """The best free place for a text at the point (x, y); None where nothing is free.

        The pixels from the point to the middle of the text's near edge, and whether that is so far that it needs a
        leader.
        """
        ups = np.arange(-1000, 1001, 5)
        ups = ups[(y + ups - height / 2 >= within[1]) & (y + ups + height / 2 <= within[3])]
        grid = np.meshgrid(ups, (10, 40, 90, 150, 220, 300), (1, -1), indexing="ij")
        up, aside, side = (axis.ravel() for axis in grid)
        left, low = x + side * aside - (side < 0) * width, y + up - height / 2
        boxes = np.stack([left, low, left + width, low + height], axis=-1)
        free = (boxes[:, 0] >= within[0]) & (boxes[:, 2] <= within[2])
        free[free] = ~_meet(boxes[free], [*self.names, *self.marks])
        up, aside, side, boxes = up[free], aside[free], side[free], boxes[free]
        cost = np.hypot(up, aside - 10) + 0.5 * (side < 0)
        # in pixels of distance: to cover a bar or a leader, and, below, to have a leader across a name or a point
        cost += 60.0 * (_meet(boxes, self.boxes).astype(int) + _meet(boxes, self.leaders))
        others = [*self.names, *(box for box in self.marks if not (box[0] <= x <= box[2] and box[1] <= y <= box[3]))]
        best, chosen, drawn = np.inf, None, np.empty((0, 4))
        for one in np.argsort(cost, kind="stable"):
            if cost[one] >= best:
                break
            far = abs(up[one]) > 16 or aside[one] > 10
            leader = _along(x, y, side[one] * aside[one], up[one]) if far else np.empty((0, 4))
            dear = cost[one] + 90.0 * bool(_meet(leader, others).any())
            if dear < best:
                best, chosen, drawn = dear, one, leader
        if chosen is None:
            return None
        self.names.append(tuple(boxes[chosen]))
        self.leaders += [tuple(box) for box in drawn]
        return int(side[chosen] * aside[chosen]), int(up[chosen]), bool(len(drawn))


def _along(x: float, y: float, across: float, up: float) -> np.ndarray:
    """Small boxes along a line, without its first pixels, which lie on its own point."""
    length = np.hypot(across, up)
    share = np.arange(13, length, 6) / length
    middle = np.stack([x + across * share, y + up * share], axis=-1)
    return np.concatenate([middle - 1, middle + 1], axis=-1)


def _meet(boxes: np.ndarray, others: Sequence[Box]) -> np.ndarray:
    """bool [N]: which boxes [N, 4] touch any of the others."""
    a, b = boxes[:, None], np.asarray(others, dtype=float).reshape(1, -1, 4)
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1).any(axis=-1)


class Named(NamedTuple):
    """A point (x, y), in the units of the axes, that gets its name."""

    recipe: str
    name: str
    x: float
    y: float
    colour: str


def write_names(
    canvas: Canvas, axes: Axes, points: Sequence[Named], labels: Labels | None = None, within: Box | None = None
) -> None:
    """The names beside their points, in this order, with a leader where one had to go further away.

    A name for which there is no room is left out. labels: what they must keep clear of; within: pixels, else the panel.
    """
    box, labels = axes.get_window_extent(), labels or Labels()
    within = within or (box.x0, box.y0 + 2, box.x1 + 10, box.y1)
    for point in points:
        look: Any = {"color": point.colour, "weight": "bold", "fontsize": 12 if len(points) <= CROWD else 10.5}
        at, lines = (point.x, point.y), wrap(clean(point.name), LONG, max_lines=2, placeholder="\u2026")
        text = axes.annotate("\n".join(lines), at, (0, 0), textcoords="offset points", va="center", zorder=5, **look)
        size, (x, y) = text.get_window_extent(), axes.transData.transform(at)
        spot = labels.place(x, y, size.width, size.height, within)
        if spot is None:
            text.remove()
            continue
        across, up, far = spot
        text.set(position=(across, up), horizontalalignment="left" if across > 0 else "right")
        canvas.describe(text, recipe=point.recipe)
        if far:
            leader = {"arrowstyle": "-", "color": point.colour, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", at, (across, up), textcoords="offset points", arrowprops=leader)


BASELINE = ("#4a4a4a", "#cfcfcf")
REST = ("#8f8b82", "#8a877f")
_LIGHT = """#0072b2 #c4500a #00805f #9a4f84 #8a6d00 #5a4fb0 #7a3b2e #3d7a2a #b0206a #1f6f78 #647700 #3b4a8c #8c4a00
            #a32020 #6b2c7f #5c5c1f #2f5d3a"""
_DARK = """#58b4e8 #ff9a55 #3fd0a4 #e3a3cd #e0c040 #b0a6ff #d99a8b #94d17c #ff8fbf #6cc6cf #c3d94a #93a5f0 #e8a860
           #f58f8f #cf9be6 #cfcf8a #9fcfae"""
FAMILIES = tuple(zip(_LIGHT.split(), _DARK.split(), strict=True))
"""A colour for each defense, for its recipes share one."""
CATEGORIES = FAMILIES[:8]

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Colours:
    """pairs: recipe label -> its hex colours on paper and on a dark screen."""

    pairs: dict[str, Pair]

    def of(self, recipe: str) -> str:
        """The colour of a recipe in a figure; a label the sweep does not know (a curve's own name) looks neutral."""
        names = {ascii_text(name): light for name, (light, _) in self.pairs.items()}
        return names.get(ascii_text(recipe), SOFT)

    @property
    def classes(self) -> dict[str, str]:
        """Recipe -> its CSS class."""
        return {recipe: f"r{place}" for place, recipe in enumerate(self.pairs)}

    def css(self) -> str:
        """Rules setting `--rc` for each recipe, light and dark, and what figures' colours become on a dark screen."""
        light, dark = (
            "".join(f".r{place}{{--rc:{pair[side]}}}" for place, pair in enumerate(self.pairs.values()))
            for side in (0, 1)
        )
        both = DARK | dict([*self.pairs.values(), REST])
        named = "".join(f"--c{on_paper[1:]}:{on_screen};" for on_paper, on_screen in both.items())
        # Paper is white whatever the screen's scheme was: dark colours hold on screens only.
        return f".rx{{--rc:var(--soft)}}{light}@media screen and (prefers-color-scheme:dark){{:root{{{named}}}{dark}}}"


def assign(result: SweepResult) -> Colours:
    """A colour for each defense where they are several, else for each recipe, of too many for those on the front."""
    facts, rows, pairs = result.facts, rows_of(result.recipes), dict[str, Pair]()
    several = len({row["family"] for row in rows} - {None, NONE}) > 1
    others = [row["recipe"] for row in rows if row["recipe"] != facts["baseline"]]
    shown = others if len(others) <= len(CATEGORIES) else [recipe for recipe in others if recipe in facts["front"]]
    for row in rows:
        recipe, family = row["recipe"], row["family"]
        is_plain = recipe == facts["baseline"] or (several and family == NONE)
        place = row["family_place"] if several else shown.index(recipe) if recipe in shown else None
        pairs[recipe] = BASELINE if is_plain else REST if place is None else FAMILIES[int(place) % len(FAMILIES)]
    return Colours(pairs=pairs)
