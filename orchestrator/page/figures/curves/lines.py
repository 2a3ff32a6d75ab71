"""Panels of curves, and the names at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas, note, plain, words_for
from smoothsweep.orchestrator.page.drawing.colours import Colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]


def panel(canvas: Canvas, box: Box, title: str, x_label: str, *, whole: bool = True) -> Axes:
    """A named panel between these pixels (left, top, right, bottom). whole: x counts something."""
    axes = canvas.axes(*box)
    if whole:
        axes.locator_params(axis="x", integer=True, nbins=6)
    axes.yaxis.set_major_formatter(plain)
    axes.set_xlabel(x_label, fontsize=12, color=SOFT)
    axes.set_title(words_for(title), loc="left", fontsize=12.5, weight="bold", color=INK)
    return axes


def name_ends(axes: Axes, ends: Mapping[str, float], colours: Colours) -> None:
    """Each curve's name at the height where it ends, pushed down where two would touch."""
    heights = sorted((-axes.transData.transform((0.0, value))[1], name) for name, value in ends.items())
    last = -1e9
    for height, name in heights:
        last = max(height, last + 16)
        shift = (10, height - last - 4)
        note(axes, words_for(name), (1, ends[name]), shift, place="across", size=12, colour=colours.of(name), bold=True)
