"""Putting a report on disk: the page, its figures as files of their own, and the overview for a README."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from core.files import write_file
from orchestrator.page.colours import Colours, assign
from orchestrator.page.figures import curves, strips
from orchestrator.page.figures.accuracy_leak import grid_of, one_plot
from orchestrator.page.figures.canvas import Canvas
from orchestrator.page.figures.overview import overview
from orchestrator.page.figures.panels import attack_panels, best_panel, family_panels
from orchestrator.page.figures.toy import toy_overview, toy_panel
from orchestrator.page.render import render, render_toy
from orchestrator.page.sheets import sheet_image
from orchestrator.reading.defenses.families import defense_groups
from orchestrator.reading.findings.shown import judges_shown
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
    found = {
        name: canvas.svg_file()
        for name, canvas in (_drawn(data, summary, colours) | _of_defenses(summary, colours)).items()
        if canvas is not None
    }
    for number, sheet in enumerate(data.sheets, start=1):
        buffer = io.BytesIO()
        sheet_image(sheet).save(buffer, format="PNG", optimize=True)
        found[f"sheet-{number}.png"] = buffer.getvalue()
    whole = overview(data, summary, colours)
    return found | ({"overview.png": whole.png()} if whole else {})


def _drawn(data: ReportData, summary: Summary, colours: Colours) -> Mapping[str, Canvas | None]:
    panels = attack_panels(summary, colours)
    title = "Test accuracy against leak for each recipe, by attack and judge"
    return {
        "accuracy-leak.svg": grid_of(panels, len(judges_shown(summary)), 500, 390, title) if panels else None,
        "judges.svg": strips.judges(summary, colours),
        "exposure.svg": strips.exposure(summary, colours),
        "alpha-curves.svg": curves.alpha_curves(data.alpha_curves, colours),
        "training-curves.svg": curves.training_curves(data.training_curves, colours),
    }


def _of_defenses(summary: Summary, colours: Colours) -> Mapping[str, Canvas | None]:
    drawn: dict[str, Canvas | None] = {}
    for number, group in enumerate(defense_groups(summary), start=1):
        measured = summary.primary in summary.measured
        panels = [panel for _, panel in family_panels(summary, group, colours, summary.primary)] if measured else []
        title = "Test accuracy against leak, one panel for each defense"
        drawn[f"defense-curves-{number}.svg"] = grid_of(panels, 3, 360, 320, title) if panels else None
        best = best_panel(summary, group, colours)
        drawn[f"defense-best-{number}.svg"] = one_plot(best, 1024, 500) if best else None
    return drawn


def _toy_figures(data: ToyData) -> dict[str, bytes]:
    found = {
        f"toy-{number}-alpha{panel.alpha:g}.svg": toy_panel(data, panel).svg_file()
        for number, shown in enumerate(data.figures, start=1)
        for panel in shown.panels
    }
    drawn = data.figures and data.figures[0].panels
    return found | ({"overview.png": toy_overview(data).png()} if drawn else {})
