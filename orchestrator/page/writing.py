"""Putting a report on disk: the page, its figures as files of their own, and the overview for a README."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from core.files import write_file
from orchestrator.page import curves, plots, scatter
from orchestrator.page.colours import assign
from orchestrator.page.defense_plots import all_panels, best_of_each
from orchestrator.page.html import render
from orchestrator.page.overview import overview_png, toy_overview_png
from orchestrator.page.sheets import sheet_image
from orchestrator.page.svg import standalone
from orchestrator.page.toy import render_toy
from orchestrator.page.toy_plots import toy_panel
from orchestrator.reading.defenses.families import defense_groups
from orchestrator.reading.numbers.model import ReportData, ToyData
from orchestrator.reading.numbers.summary import Summary, summarise


def write_report(data: ReportData | ToyData, out: Path, summary: Summary | None = None) -> Path:
    """Write `out/report.html` and `out/figures/*`; returns the page's path.

    summary: `summarise(data)` where the caller has it already. Every file replaces its predecessor in one step, the
    page last, so that a reader never meets half a report. results.parquet is linked where it lies in `out` already.
    """
    out.mkdir(parents=True, exist_ok=True)
    if isinstance(data, ToyData):
        contents, page = _toy_figures(data), render_toy(data)
    else:
        summary = summary or summarise(data)
        contents = _figures(data, summary)
        page = render(data, summary, results_file=(out / "results.parquet").is_file())
    for name, content in contents.items():
        write_file(out / "figures" / name, content, parents=True)
    write_file(out / "report.html", page)
    return out / "report.html"


def _figures(data: ReportData, summary: Summary) -> dict[str, bytes]:
    """File name -> content of every figure there is something to show in."""
    colours = assign(summary)
    drawn = {
        "accuracy-leak.svg": scatter.accuracy_leak(summary, colours),
        "judges.svg": plots.judges(summary, colours),
        "exposure.svg": plots.exposure(summary, colours),
        "alpha-curves.svg": curves.alpha_curves(data.alpha_curves, colours),
        "training-curves.svg": curves.training_curves(data.training_curves, colours),
    }
    for number, group in enumerate(defense_groups(summary), start=1):
        drawn[f"defense-curves-{number}.svg"] = all_panels(summary, group, colours)
        drawn[f"defense-best-{number}.svg"] = best_of_each(summary, group, colours)
    found = {name: standalone(figure, colours.css()).encode("utf-8") for name, figure in drawn.items() if figure}
    for number, sheet in enumerate(data.sheets, start=1):
        found[f"sheet-{number}.png"] = _png(sheet_image(sheet))
    overview = overview_png(data, summary, colours)
    return found | ({"overview.png": overview} if overview else {})


def _toy_figures(data: ToyData) -> dict[str, bytes]:
    found = {}
    for number, shown in enumerate(data.figures, start=1):
        for panel in shown.panels:
            found[f"toy-{number}-alpha{panel.alpha:g}.svg"] = standalone(toy_panel(data, panel), "").encode("utf-8")
    drawn = data.figures and data.figures[0].panels
    return found | ({"overview.png": toy_overview_png(data)} if drawn else {})


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
