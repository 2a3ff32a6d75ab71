"""Putting a report on disk: the page, its figures as files of their own, and the overview for a README."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.page.figures.colours import assign
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import png, sheet_image
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.summary import Summary, summarise
from smoothsweep.orchestrator.result.sweep_result import SweepResult


def write_report(
    data: ReportData, out: Path, summary: Summary | None = None, result: SweepResult | None = None
) -> Path:
    """Write `out/report.html` and `out/figures/*`; returns the page's path.

    summary, result: of `data`, where the caller has them already. Every file replaces its predecessor in one step, the
    page last, so that a reader never meets half a report. results.parquet is linked where it lies in `out` already.
    """
    out.mkdir(parents=True, exist_ok=True)
    summary = summary or summarise(data)
    figures = Figures(data=data, summary=summary, colours=assign(summary)).files()
    sheets = {f"sheet-{number}.png": png(sheet_image(sheet)) for number, sheet in enumerate(data.sheets, start=1)}
    page = render(data, summary, result=result, results_file=(out / "results.parquet").is_file())
    drawn = {name: canvas.file(name) for name, canvas in figures.items() if canvas is not None}
    for name, content in (drawn | sheets).items():
        write_file(out / "figures" / name, content, parents=True)
    write_file(out / "report.html", page)
    return out / "report.html"


def figure_files(out: Path) -> list[Path]:
    """The figures of the report in `out`, pictures and drawings, by name."""
    return sorted(path for path in (out / "figures").glob("*") if path.suffix in (".png", ".svg"))
