"""The sweep in one picture for MLflow and a README: reconstructions above, accuracy against leak below."""

from __future__ import annotations

import numpy as np

from orchestrator.page.colours import Colours
from orchestrator.page.figures.accuracy_leak import draw
from orchestrator.page.figures.canvas import Canvas
from orchestrator.page.figures.panels import attack_panels
from orchestrator.page.sheets import sheet_image
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary

ROWS = 3
"""Classes of the contact sheet that the overview shows."""

WIDTH, PLOT = 860.0, 360.0


def overview(data: ReportData, summary: Summary, colours: Colours) -> Canvas | None:
    """At most two plots, the deciding judge under each attack or each judge under the one; None where there is neither
    a sheet nor a leak to plot."""
    panels = attack_panels(summary, colours)
    if len(summary.attacks) > 1:
        panels = [panel for panel in panels if panel.spec == panels[0].spec]
    panels = panels[:2]
    if not data.sheets and not panels:
        return None
    sheet = sheet_image(data.sheets[0], rows=ROWS) if data.sheets else None
    wide = min(WIDTH, 0.9 * sheet.width) if sheet else 0.0  # few columns make a narrow strip, not huge faces
    strip = wide * sheet.height / sheet.width if sheet else 0.0
    canvas = Canvas(WIDTH, strip + (PLOT if panels else 0.0), data.title)
    if sheet is not None:
        axes = canvas.axes((WIDTH - wide) / 2, 0, (WIDTH + wide) / 2, strip, grid=None)
        axes.imshow(np.asarray(sheet), interpolation="lanczos", aspect="auto")
        axes.axis("off")
    for index, panel in enumerate(panels):
        share = WIDTH / len(panels)
        draw(canvas, panel, index * share, strip, share, PLOT)
    return canvas
