"""The sweep in one picture for a README: reconstructions above, accuracy against leak below. Drawn by matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from orchestrator.page.colours import Colours
from orchestrator.page.sheets import sheet_image
from orchestrator.page.svg import Labels, text_width
from orchestrator.page.toy_plots import background, hue, sides_of
from orchestrator.reading.findings.shown import judges_shown
from orchestrator.reading.numbers.format import minus, significant
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.model import ReportData, ToyData, ToyPanel
from orchestrator.reading.numbers.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE = "#1d1d1b", "#65635d", "#d9d6ce"
ROWS = 3
"""Classes of the contact sheet that the overview shows."""

WIDTH, PLOT = 9.2, 3.7
"""Inches: the picture's width, the height of its plots."""

TILE_SCALE = 0.0125
"""Inches per pixel of the sheet, at most: few columns make a narrow strip, not huge faces."""


def overview_png(data: ReportData, summary: Summary, colours: Colours) -> bytes | None:
    """The picture as PNG, None where there is neither a sheet nor a leak to plot."""
    panels = _panels(summary) if "test_acc" in summary.measured else []
    if not data.sheets and not panels:
        return None
    sheet = sheet_image(data.sheets[0], rows=ROWS) if data.sheets else None
    wide = min(WIDTH, sheet.width * TILE_SCALE) if sheet else 0.0
    strip = wide * sheet.height / sheet.width if sheet else 0.0
    plot = PLOT if panels else 0.0
    figure = _figure(WIDTH, strip + plot)
    if sheet is not None:
        left = (1 - wide / WIDTH) / 2
        axes = figure.add_axes((left, plot / (strip + plot), wide / WIDTH, strip / (strip + plot)))
        axes.imshow(np.asarray(sheet), interpolation="lanczos")
        axes.axis("off")
    share = 0.94 / max(1, len(panels))
    for index, (judge, attack) in enumerate(panels):
        box = (0.055 + index * share, 0.6 / (strip + plot), share - 0.05, (PLOT - 1.05) / (strip + plot))
        axes = figure.add_axes(box)
        _scatter(axes, summary, colours, judge, attack)
    return _bytes(figure)


def _panels(summary: Summary) -> list[tuple[str, str]]:
    """(judge, attack) of at most two panels: the deciding judge under each attack, or each judge under the one."""
    judges = judges_shown(summary)
    if len(summary.attacks) == 1 or not judges:
        return [(judge, summary.attacks[0]) for judge in judges[:2]]
    return [(judges[0], attack) for attack in summary.attacks[:2]]


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # heavy: only where a picture is drawn
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _bytes(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


def _scatter(axes: Axes, summary: Summary, colours: Colours, judge: str, attack: str) -> None:
    spec, frame = spec_of(judge), summary.frame
    factor = 100 if spec.unit == "percent" else 1
    known = frame[frame[judge].notna() & frame["test_acc"].notna()]
    xs = 100 * known["test_acc"]
    room = max(0.6, 0.3 * (xs.max() - xs.min()))
    axes.set_xlim(xs.min() - room, xs.max() + room)
    if spec.unit == "percent":
        shown_rates = [frame[f"{key}{end}"] for key, _ in _panels(summary) for end in ("", "_high")]
        axes.set_ylim(0, min(100.0, 112 * float(pd.concat(shown_rates).max())))
    shown = known[known["attack"] == attack]
    for _, row in shown.iterrows():
        _dot(axes, row, judge, factor, colours.light[row["recipe"]])
    _name_dots(axes, shown, judge, factor, colours)
    unit = ", %" if spec.unit == "percent" else ""
    axes.set_title(f"Leak: {spec.label}{unit}" + (f" ({attack})" if attack else ""), loc="left", fontsize=10, color=INK)
    axes.set_xlabel("test accuracy, %", fontsize=9, color=SOFT)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=SOFT, length=0)
    axes.locator_params(nbins=6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)


def _dot(axes: Axes, row: pd.Series, judge: str, factor: float, colour: str) -> None:
    x, y = 100 * row["test_acc"], factor * row[judge]
    if not pd.isna(row[f"{judge}_low"]):
        ends = [factor * row[f"{judge}_low"], factor * row[f"{judge}_high"]]
        axes.plot([x, x], ends, color=colour, linewidth=1.4, clip_on=False)
    face = "white" if row["is_baseline"] else colour
    axes.plot([x], [y], "o", markersize=7.5, mfc=face, mec=colour, mew=1.8, clip_on=False, zorder=3)


def _name_dots(axes: Axes, shown: pd.DataFrame, judge: str, factor: float, colours: Colours) -> None:
    """Recipe names beside their dots, placed as in the page's figures."""
    if not len(shown):
        return
    placed = Labels()
    pixels = axes.transData.transform(np.column_stack([100 * shown["test_acc"], factor * shown[judge]]))
    panel = axes.get_window_extent()
    for px, py in pixels:
        placed.keep_clear(px - 8, -py - 8, px + 8, -py + 8)
    within = (panel.x0, -panel.y1 - 14, panel.x1 + 20, -panel.y0)
    for (px, py), recipe in zip(pixels, shown["recipe"], strict=True):
        spot = placed.place(px, -py, text_width(recipe, 13.5), within)
        at = axes.transData.inverted().transform((spot.x, -spot.y))
        side = "left" if spot.anchor == "start" else "right"
        words = recipe.replace("$", r"\$")
        axes.text(*at, words, fontsize=8.5, color=colours.light[recipe], fontweight="bold", ha=side)


MARKERS = {0: "o", 4: "s", 5: "p"}
"""Corners -> matplotlib marker."""


def toy_overview_png(data: ToyData) -> bytes:
    """The panels of the first figure side by side."""
    panels = data.figures[0].panels
    figure = _figure(3.4 * len(panels), 3.7)
    for index, panel in enumerate(panels):
        axes = figure.add_axes((index / len(panels) + 0.012, 0.02, 1 / len(panels) - 0.024, 0.86))
        _toy_axes(axes, data, panel)
    return _bytes(figure)


def _toy_axes(axes: Axes, data: ToyData, panel: ToyPanel) -> None:
    lo, hi = data.extent
    axes.imshow(background(data, panel), extent=(lo, hi, lo, hi), interpolation="bilinear")
    for index, name in enumerate(data.class_names):
        mine, marker = data.points[data.labels == index], MARKERS[sides_of(index, name)]
        axes.plot(mine[:, 0], mine[:, 1], marker, ms=3, color=hue(index, name), mec=INK, mew=0.4)
    path = panel.path[np.isfinite(panel.path).all(axis=1)]
    axes.plot(path[:, 0], path[:, 1], color=INK, linewidth=3.4)
    axes.plot(path[:, 0], path[:, 1], color="#ffd60a", linewidth=2)
    for point, face in ((path[0], "white"), (path[-1], "#ffd60a")):
        axes.plot(*point, "o", ms=7, mfc=face, mec=INK, mew=1.5)
    axes.set(xlim=(lo, hi), ylim=(lo, hi), xticks=[], yticks=[])
    distance = "" if panel.distance is None else f", distance {significant(panel.distance)}"
    axes.set_title(f"alpha {minus(f'{panel.alpha:g}')}: {panel.steps:,} steps{distance}", fontsize=10, color=INK)
