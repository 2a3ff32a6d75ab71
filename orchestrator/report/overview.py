"""The sweep in one picture for a README: reconstructions above, accuracy against leak below. Drawn by matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from orchestrator.report.colours import Colours
from orchestrator.report.metrics import spec_of
from orchestrator.report.model import ReportData, ToyData
from orchestrator.report.plots import judges_shown
from orchestrator.report.sheets import sheet_image
from orchestrator.report.summary import Summary
from orchestrator.report.toy import HUES, background

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE = "#1d1d1b", "#65635d", "#d9d6ce"
ROWS = 3
"""Classes of the contact sheet that the overview shows."""


def overview_png(data: ReportData, summary: Summary, colours: Colours) -> bytes | None:
    """The picture as PNG, None where there is neither a sheet nor a leak to plot."""
    judges = judges_shown(summary) if "test_acc" in summary.measured else []
    if not data.sheets and not judges:
        return None
    sheet = sheet_image(data.sheets[0], rows=ROWS) if data.sheets else None
    strip = 9.2 * sheet.height / sheet.width if sheet else 0.0
    plot = 3.6 * len(summary.attacks) if judges else 0.0
    figure = _figure(9.2, strip + plot)
    if sheet is not None:
        axes = figure.add_axes((0, plot / (strip + plot), 1, strip / (strip + plot)))
        axes.imshow(np.asarray(sheet), interpolation="lanczos")
        axes.axis("off")
    total, columns = strip + plot, len(judges)
    for down, attack in enumerate(summary.attacks if judges else []):
        for across, judge in enumerate(judges):
            left, bottom = 0.075 + across * 0.93 / columns, (plot - 3.6 * down - 3.6 + 0.55) / total
            axes = figure.add_axes((left, bottom, 0.93 / columns - 0.09, 2.55 / total))
            _scatter(axes, summary, colours, judge, attack)
    return _bytes(figure)


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
    shown = frame[(frame["attack"] == attack) & frame[judge].notna() & frame["test_acc"].notna()]
    for _, row in shown.iterrows():
        _dot(axes, row, judge, factor, colours.light[row["recipe"]])
    xs = 100 * frame.loc[frame[judge].notna(), "test_acc"]
    room = max(1.0, 0.3 * (xs.max() - xs.min()))
    axes.set_xlim(xs.min() - room, xs.max() + room)
    if spec.unit == "percent":
        rates = [
            frame[f"{key}{end}"]
            for key in judges_shown(summary)
            for end in ("", "_high")
            if spec_of(key).unit == "percent"
        ]
        axes.set_ylim(0, min(102.0, 110 * float(pd.concat(rates).max())))
    axes.set_title(f"Leak: {spec.label}" + (f" · {attack}" if attack else ""), loc="left", fontsize=10, color=INK)
    axes.set_xlabel("test accuracy, %", fontsize=9, color=SOFT)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=SOFT, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)


def _dot(axes: Axes, row: pd.Series, judge: str, factor: float, colour: str) -> None:
    x, y = 100 * row["test_acc"], factor * row[judge]
    if not pd.isna(row[f"{judge}_low"]):
        axes.plot([x, x], [factor * row[f"{judge}_low"], factor * row[f"{judge}_high"]], color=colour, linewidth=1.4)
    axes.plot(
        [x],
        [y],
        "o",
        markersize=7.5,
        markerfacecolor="white" if row["is_baseline"] else colour,
        markeredgecolor=colour,
        markeredgewidth=1.8,
    )
    axes.annotate(
        row["recipe"].replace("$", r"\$"),
        (x, y),
        xytext=(7, 4),
        textcoords="offset points",
        fontsize=8.5,
        color=colour,
        fontweight="bold",
    )


def toy_overview_png(data: ToyData) -> bytes:
    """The panels of the first figure side by side."""
    panels = data.figures[0].panels
    figure = _figure(3.4 * len(panels), 3.7)
    lo, hi = data.extent
    for index, panel in enumerate(panels):
        axes = figure.add_axes((index / len(panels) + 0.012, 0.02, 1 / len(panels) - 0.024, 0.86))
        axes.imshow(background(panel), extent=(lo, hi, lo, hi), interpolation="bilinear")
        for label, marker in zip(range(len(data.class_names)), "sop^vD" * len(data.class_names), strict=False):
            mine = data.points[data.labels == label]
            axes.plot(
                mine[:, 0],
                mine[:, 1],
                marker,
                markersize=3,
                color=HUES[label % len(HUES)],
                markeredgecolor=INK,
                markeredgewidth=0.4,
            )
        axes.plot(panel.path[:, 0], panel.path[:, 1], color=INK, linewidth=3.4)
        axes.plot(panel.path[:, 0], panel.path[:, 1], color="#ffd60a", linewidth=2)
        axes.set(xlim=(lo, hi), ylim=(lo, hi), xticks=[], yticks=[])
        axes.set_title(
            f"alpha {panel.alpha:g}: {panel.steps:,} steps, distance {panel.distance:.2f}", fontsize=10, color=INK
        )
    return _bytes(figure)
