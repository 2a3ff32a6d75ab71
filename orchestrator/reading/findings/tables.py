"""The results table as plain text for a terminal and as Markdown for a README."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.metrics.table import CLASS_METRICS, metric_of
from core.words import printable
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import ascii_text, axis_value, interval, number, signed
from orchestrator.reading.numbers.summary import Summary

KEY_METRICS = ("test_acc", "embedder_acc1", "attack_acc1", "xi_train", "dist_face")
"""The metrics of the first table; the rest follow in the table of everything measured."""


def text_table(summary: Summary, *, metrics: Sequence[str] | None = None) -> str:
    """Aligned plain text, one line per cell. `*` marks the least leak (never with one seed), `=` the baseline."""
    headers, rows, marks = _table(summary, metrics if metrics is not None else _terminal_metrics(summary))
    lines = [["", *headers], *([mark, *row] for mark, row in zip(marks, rows, strict=True))]
    lines = [[ascii_text(cell) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    words = max(1, len(summary.axes))
    shown = [
        "  ".join(
            cell.ljust(width) if column <= words or column == len(widths) - 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "-" * max(len(line) for line in shown)
    level = f"{100 * summary.settings.level:g} %"
    legend = f"* least leak   = baseline   [low, high] {level} interval; n = 1: over classes or none; it tells nothing"
    return "\n".join([shown[0], rule, *shown[1:], rule, legend])


def markdown_table(summary: Summary, *, metrics: Sequence[str] | None = None) -> str:
    """The same table in Markdown; the least leak in bold (never with one seed), the baseline named."""
    headers, rows, marks = _table(summary, metrics)
    words = max(1, len(summary.axes))
    align = ["---" if column < words or column == len(headers) - 1 else "---:" for column in range(len(headers))]
    lines = [headers, align]
    for mark, row in zip(marks, rows, strict=True):
        cells = [escaped(cell) if column < words else cell for column, cell in enumerate(row)]
        if "*" in mark:
            cells = [f"**{cell}**" if cell else cell for cell in cells]
        if "=" in mark:
            cells[0] = f"{cells[0]} (baseline)"
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _terminal_metrics(summary: Summary) -> list[str]:
    """What fits a terminal: accuracy and the judges."""
    return [key for key in shown_metrics(summary) if key in ("test_acc", summary.primary, *CLASS_METRICS)]


def shown_metrics(summary: Summary) -> list[str]:
    """The metrics of the first table: the key ones that were measured, the deciding one among them."""
    keys = [key for key in KEY_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in keys:
        keys.insert(1 if keys[:1] == ["test_acc"] else 0, summary.primary)
    return keys


def _table(summary: Summary, metrics: Sequence[str] | None) -> tuple[list[str], list[list[str]], list[str]]:
    """Headers, rows, and a mark per row: one column per axis (the recipe where there is none), n, metrics, verdict."""
    keys = list(metrics) if metrics is not None else shown_metrics(summary)
    headers = [axis.name for axis in summary.axes] or ["recipe"]
    headers += ["n", *(metric_of(key).label for key in keys)]
    if summary.primary:
        headers += ["vs baseline", "verdict"]
    best = decide(summary).marked
    rows, marks = [], []
    for index, cell in summary.frame.iterrows():
        row = [axis_value(axis, cell[axis.key]) for axis in summary.axes] or [cell["recipe"]]
        row += [seeds(cell), *(_cell(key, cell) for key in keys)]
        if summary.primary:
            row += list(_versus(summary.primary, cell))
        rows.append(row)
        marks.append(("*" if index == best else "") + ("=" if cell["is_baseline"] else ""))
    return headers, rows, marks


def seeds(cell: pd.Series) -> str:
    """`2`, or `2 of 3` where trials failed or are missing."""
    planned = cell["n"] + cell["failed"] + cell["missing"]
    return str(cell["n"]) if planned == cell["n"] else f"{cell['n']} of {planned}"


def _cell(key: str, cell: pd.Series) -> str:
    spec = metric_of(key)
    return f"{number(spec, cell[key])} {interval(spec, cell[f'{key}_low'], cell[f'{key}_high'])}".strip()


def _versus(key: str, cell: pd.Series) -> tuple[str, str]:
    if cell["is_baseline"]:
        return "", "baseline"
    if not cell[f"{key}_verdict"]:
        return "", ""
    return signed(metric_of(key), cell[f"{key}_diff"]), cell[f"{key}_verdict"]


def escaped(cell: str) -> str:
    """Markdown's own marks in a user's name stay letters."""
    escaped = printable(" ".join(cell.split()), most=len(cell))
    for mark in ("\\", "|", "*", "_", "`", "[", "]"):
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped.replace("<", "&lt;").replace(">", "&gt;")
