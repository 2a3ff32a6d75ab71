"""Gradient stability along a descent, by recipe: the paper's Figs. 6b and 7, and below them what explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from smoothsweep.orchestrator.page.drawing.canvas import SOFT, Canvas, limits, percent
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.curves.lines import name_ends, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 880.0, 236.0
LOSSES = {"poincare": "Poincar\u00e9 loss", "cross_entropy": "cross-entropy"}
COLUMNS = ((52.0, 340.0), (432.0, 720.0))
SHARES = {"zero": (0, (5, 4)), "saturated": "-"}
"""Drawn as shares in the lower panels, each in its dashes."""

Curves = Mapping[str, pd.DataFrame]
"""Recipe label -> rows loss, quantity, step, mean, low, high."""


def gradient_curves(curves: Curves, colours: Colours) -> Canvas | None:
    """Above: cosine between consecutive gradients, with its interval over classes. Below: shares of zero gradients
    (dashed) and of saturated softmax. One column per loss; None without a recipe that was measured."""
    if not curves:
        return None
    canvas = Canvas(WIDTH, 2 * ROW, "Cosine between consecutive attack gradients, by step, loss and recipe")
    for number, (loss, name) in enumerate(LOSSES.items()):
        across = COLUMNS[number]
        above = _panel(canvas, across, 0.0, f"Gradient cosine, {name}")
        below = _panel(canvas, across, ROW, "Saturated softmax and zero gradients (dashed), %")
        below.yaxis.set_major_formatter(percent)
        below.set(ylim=(-0.03, 1.03))
        ends, seen = {}, [0.0]
        for recipe, rows in curves.items():
            cosine = _series(rows, loss, "cosine")
            seen += cosine[["mean", "low", "high"]].stack().dropna().tolist()
            _band(canvas, above, cosine, recipe, colours)
            for quantity, dashes in SHARES.items():
                series = _series(rows, loss, quantity)
                (line,) = below.plot(series["step"], series["mean"], color=colours.of(recipe), lw=2.0, ls=dashes)
                canvas.describe(line, f"{recipe}: {quantity.replace('zero', 'zero gradients')}", recipe=recipe)
            if len(cosine):
                ends[recipe] = float(cosine["mean"].iloc[-1])
        above.set(ylim=limits(seen, share=0.06))
        if number == len(LOSSES) - 1:
            name_ends(above, ends, colours)
    return canvas


def _series(rows: pd.DataFrame, loss: str, quantity: str) -> pd.DataFrame:
    """The steps at which this was measured, in order; counted from 1."""
    points = rows[(rows["loss"] == loss) & (rows["quantity"] == quantity) & rows["mean"].notna()]
    return points.assign(step=points["step"] + 1).sort_values("step")


def _band(canvas: Canvas, axes: Axes, rows: pd.DataFrame, recipe: str, colours: Colours) -> None:
    if not len(rows):
        return
    held = rows.dropna(subset=["low", "high"])
    axes.fill_between(held["step"], held["low"], held["high"], color=colours.of(recipe), alpha=0.16, lw=0)
    (line,) = axes.plot(rows["step"], rows["mean"], color=colours.of(recipe), lw=2.2)
    canvas.describe(line, recipe, recipe=recipe)


def _panel(canvas: Canvas, across: tuple[float, float], top: float, title: str) -> Axes:
    axes = panel(canvas, (across[0], top + 34, across[1], top + ROW - 46), title, "step")
    axes.axhline(0, color=SOFT, lw=1)
    return axes
