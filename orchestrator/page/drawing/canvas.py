"""Figures by matplotlib, drawn once: as SVG inside the page, as an SVG file, or as PNG.

One library draws everything, because a page that works offline must bring what draws it: a JavaScript chart library
would add a megabyte or more to every report and could not draw the PNG that MLflow and a README show. The same data
give the same bytes: identifiers are salted, dates left out. Text stays text. Marks carry their words as `<title>`;
those that lead to a row of a table are links, which the keyboard reaches.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

from markupsafe import Markup

from smoothsweep.core.text import escape_controls, minus

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK, SOFT, LINE, PAPER, ACCENT = "#1d1d1b", "#65635d", "#d9d6ce", "#ffffff", "#b3261e"
DARK = {INK: "#ecebe7", SOFT: "#a5a299", LINE: "#3c3b38", PAPER: "#181817", ACCENT: "#ff8a80"}
"""Colour on paper -> on a dark screen."""

LOOK: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "smoothsweep",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.unicode_minus": True,
    "path.simplify": False,
}
SVG = "http://www.w3.org/2000/svg"
XLINK = "{http://www.w3.org/1999/xlink}href"
PX = 72  # matplotlib's SVG counts 72 units to the inch: with as many dots, its pixels are ours


class Tooltip(NamedTuple):
    """What a mark says, whose it is, and where it leads."""

    words: str
    recipe: str
    link: str


class Canvas:
    """A figure of `width` by `height` pixels; `title` is read aloud in its place."""

    def __init__(self, width: float, height: float, title: str) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # heavy: only where a picture is drawn
        from matplotlib.figure import Figure

        self.width, self.height, self.title = width, height, title
        self.figure = Figure(figsize=(width / PX, height / PX), dpi=PX)
        FigureCanvasAgg(self.figure)
        self._tooltips: dict[str, Tooltip] = {}

    def axes(
        self, left: float, top: float, right: float, bottom: float, *, grid: Literal["x", "y", "both"] | None = "y"
    ) -> Axes:
        """A bare panel between these pixels, counted from the top left. grid: the axis with lines across."""
        box = (left / self.width, 1 - bottom / self.height, (right - left) / self.width, (bottom - top) / self.height)
        axes = self.figure.add_axes(box)
        axes.patch.set_visible(False)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(SOFT)
        axes.tick_params(labelsize=11, labelcolor=SOFT, length=0, pad=5)
        axes.set_axisbelow(True)
        if grid:
            axes.grid(axis=grid, color=LINE, linewidth=1)
        return axes

    def describe(self, artist: Artist, words: str = "", *, recipe: str = "", link: str = "") -> None:
        """Let a mark say something, belong to a recipe, lead somewhere."""
        gid = f"told-{len(self._tooltips)}"
        artist.set_gid(gid)
        self._tooltips[gid] = Tooltip(words, recipe, link)

    def svg(self) -> Markup:
        """SVG for a page: colours follow the screen's scheme, every mark has its words."""
        return Markup(self._text(_themed(self._tree())))

    def file(self, name: str) -> bytes:
        """A file of its own, by the ending of its name."""
        kinds = {".png": self.png, ".pdf": self.pdf}
        return kinds.get(name[-4:], self.svg_file)()

    def svg_file(self) -> bytes:
        return b'<?xml version="1.0" encoding="UTF-8"?>\n' + self._text(self._tree()).encode("utf-8")

    def pdf(self) -> bytes:
        """PDF for a paper: lines and letters stay lines and letters."""
        empty = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        return self._saved("pdf", metadata={**empty, "Title": _harmless(self.title)}, transparent=True)

    def png(self, dpi: int = 160) -> bytes:
        """PNG for MLflow and a README, at `dpi` dots to 72 pixels."""
        return self._saved("png", dpi=dpi, facecolor="white")

    def _saved(self, kind: str, **options: Any) -> bytes:
        from matplotlib import rc_context

        buffer = io.BytesIO()
        with rc_context(LOOK):
            self.figure.savefig(buffer, format=kind, **options)
        return buffer.getvalue()

    def _tree(self) -> ElementTree.Element:
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        tree = ElementTree.fromstring(self._saved("svg", metadata=empty, transparent=True))
        for metadata in tree.findall(f"{{{SVG}}}metadata"):
            tree.remove(metadata)
        _write_tooltips(tree, self._tooltips)
        _tidy(tree, f"f{crc32((self.title + repr(sorted(self._tooltips.items()))).encode('utf-8', 'replace')):x}")
        for name in ("width", "height", "version"):
            tree.attrib.pop(name, None)
        tree.attrib |= {
            "class": "fig",
            "role": "img",
            "aria-label": _harmless(self.title),
            "style": f"max-width:{self.width:g}px;--w:{self.width:g}px",
        }
        return tree

    def _text(self, tree: ElementTree.Element) -> str:
        ElementTree.register_namespace("", SVG)
        return ElementTree.tostring(tree, encoding="unicode")


Place = Literal["inside", "across", "up", "frame"]
"""Units of a note's place: those of the axes; its width, its height, or both, as fractions of the panel."""
_COORDINATES: dict[Place, Any] = {
    "inside": "data",
    "across": ("axes fraction", "data"),
    "up": ("data", "axes fraction"),
    "frame": "axes fraction",
}


def note(
    axes: Axes,
    words: str,
    at: tuple[float, float],
    shift: tuple[float, float] = (0, 0),
    *,
    place: Place = "inside",
    size: float = 11,
    colour: str = SOFT,
    bold: bool = False,
    **look: Any,
) -> None:
    """Words beside a place of a panel, `shift` pixels to the right of it and above."""
    weight = "bold" if bold else "normal"
    options: dict[str, Any] = {
        "fontsize": size,
        "color": colour,
        "weight": weight,
        "xycoords": _COORDINATES[place],
        **look,
    }
    axes.annotate(words, at, shift, textcoords="offset pixels", **options)


def words_for(text: str) -> str:
    """Text that a drawing may hold: control characters and marks of direction as escapes, on one line."""
    return _harmless(text.replace("\n", " "))


def _harmless(text: str) -> str:
    return escape_controls(text.encode("utf-8", "replace").decode("utf-8"))


def _write_tooltips(tree: ElementTree.Element, tooltips: dict[str, Tooltip]) -> None:
    """Titles, recipes and links for the groups that stand for marks."""
    for parent in list(tree.iter()):
        for place, child in enumerate(list(parent)):
            tooltip = tooltips.get(child.get("id", ""))
            if tooltip is None:
                continue
            if tooltip.link:
                link = ElementTree.Element(f"{{{SVG}}}a", {"href": tooltip.link})
                parent[place] = link
                link.append(child)
                child = link
            child.set("class", "pt")
            if tooltip.recipe:
                child.set("data-recipe", _harmless(tooltip.recipe))
            if tooltip.words:
                if not tooltip.link:
                    child.set("tabindex", "0")
                title = ElementTree.Element(f"{{{SVG}}}title")
                title.text = _harmless(tooltip.words)
                child.insert(0, title)


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


def plain(value: float, _: float) -> str:
    """A number at a tick."""
    return minus(f"{value:g}")


def percent(value: float, _: float) -> str:
    """A fraction at a tick, in per cent."""
    return minus(f"{round(100 * value, 6):g}")


def percent_sign(value: float, position: float) -> str:
    """A fraction in per cent with its unit, for an axis without a name of its own."""
    return f"{percent(value, position)}\u00a0%"


def limits(values: Sequence[float], *, share: float = 0.12, least: float = 0.02) -> tuple[float, float]:
    """A domain around the values with room at both ends, never empty."""
    lo, hi = min(values), max(values)
    room = max((hi - lo) * share, least)
    return lo - room, hi + room
