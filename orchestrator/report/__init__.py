"""The report of a sweep: fill `ReportData` (or `ToyData`), then `write_report`. Nothing here knows Ray or MLflow."""

from orchestrator.report.model import (
    Axis,
    ContactSheet,
    PaperReference,
    ReportData,
    SheetRow,
    Spent,
    StageLink,
    Tile,
    ToyData,
    ToyFigure,
    ToyPanel,
)
from orchestrator.report.published import beside_paper, published_frame
from orchestrator.report.published_text import published_markdown, published_text
from orchestrator.report.summary import Summary, cells, recipe_label, summarise
from orchestrator.report.tables import markdown_table, text_table
from orchestrator.report.writing import write_report

__all__ = [
    "Axis",
    "ContactSheet",
    "PaperReference",
    "ReportData",
    "SheetRow",
    "Spent",
    "StageLink",
    "Summary",
    "Tile",
    "ToyData",
    "ToyFigure",
    "ToyPanel",
    "beside_paper",
    "cells",
    "markdown_table",
    "published_frame",
    "published_markdown",
    "published_text",
    "recipe_label",
    "summarise",
    "text_table",
    "write_report",
]
