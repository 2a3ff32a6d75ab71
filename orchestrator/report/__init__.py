"""The report of a sweep: fill `ReportData` (or `ToyData`), then `write_report`. Nothing here knows Ray or MLflow."""

from orchestrator.report.model import (
    Axis,
    ContactSheet,
    PaperTable,
    ReportData,
    SheetRow,
    StageLink,
    Tile,
    ToyData,
    ToyFigure,
    ToyPanel,
)
from orchestrator.report.summary import Summary, cells, recipe_label, summarise
from orchestrator.report.tables import markdown_table, text_table
from orchestrator.report.writing import write_report

__all__ = [
    "Axis",
    "ContactSheet",
    "PaperTable",
    "ReportData",
    "SheetRow",
    "StageLink",
    "Summary",
    "Tile",
    "ToyData",
    "ToyFigure",
    "ToyPanel",
    "cells",
    "markdown_table",
    "recipe_label",
    "summarise",
    "text_table",
    "write_report",
]
