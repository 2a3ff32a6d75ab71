"""The names of recipes beside their points, with a leader where a name had to go further away."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from smoothsweep.orchestrator.page.drawing.canvas import Canvas, words_for
from smoothsweep.orchestrator.page.figures.labels import LINE_HEIGHT, Labels, text_width
from smoothsweep.orchestrator.result.display import LONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CROWD = 8
"""Names beyond which they are written smaller."""
_SIZE, _SMALLER = 12.0, 10.5


class Named(NamedTuple):
    """A point that gets its name.

    Attributes:
        recipe: The recipe that is named.
        name: What is written; (x, y): in the units of the axes.
    """

    recipe: str
    name: str
    x: float
    y: float
    colour: str


def write_names(canvas: Canvas, axes: Axes, labels: Labels, points: Sequence[Named]) -> None:
    """The names in this order: the first have the best places. A name for which there is no room is left out."""
    box = axes.get_window_extent()
    within = (box.x0, -box.y1, box.x1 + 10, -box.y0 - 2)
    size = _SIZE if len(points) <= CROWD else _SMALLER
    for point in points:
        lines = _lines(point.name)
        px, py = axes.transData.transform((point.x, point.y))
        spot = labels.place(px, -py, max(text_width(line, size) for line in lines), within, lines=len(lines))
        if spot is None:
            continue
        pixels = axes.transData.inverted()
        if spot.leader:
            at = pixels.transform((spot.x, -spot.y))
            axes.plot([point.x, at[0]], [point.y, at[1]], color=point.colour, lw=1, alpha=0.6)
        for number, line in enumerate(lines):
            along, up = pixels.transform((spot.x, -spot.y - LINE_HEIGHT * number))
            align = "left" if spot.left_aligned else "right"
            text = axes.text(
                along, up, line, fontsize=size, color=point.colour, weight="bold", zorder=5, ha=align, va="baseline"
            )
            canvas.describe(text, recipe=point.recipe)


def _lines(name: str) -> list[str]:
    """The name in one line or two, the second shortened at need."""
    whole = words_for(name)
    if len(whole) <= LONG:
        return [whole]
    first, *rest = wrap(whole, LONG, break_on_hyphens=False)
    second = " ".join(rest)
    return [first, second if len(second) <= LONG else f"{second[: LONG - 1]}\u2026"] if second else [first]
