"""The report of a sweep: fill `ReportData` (or `ToyData`), then `write_report`. Nothing here knows Ray or MLflow."""

from orchestrator.reading.findings.tables import markdown_table, text_table
from orchestrator.reading.numbers.model import (
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
from orchestrator.reading.numbers.summary import Summary, cells, recipe_label, summarise
from orchestrator.reading.published.comparison import beside_paper, published_frame
from orchestrator.reading.published.text import published_markdown, published_text

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
]
