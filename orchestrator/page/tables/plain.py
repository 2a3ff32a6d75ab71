"""Printed tables as Markdown for a README (rounded as in LaTeX) and as CSV for programs (unrounded)."""

from __future__ import annotations

import csv
import io
import re

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import printable, typable
from smoothsweep.orchestrator.reading.leak.printed import Estimate, PrintedTable, shown_estimate, shown_reduction


def markdown_table(table: PrintedTable) -> str:
    """A table for GitHub's Markdown, its caption below it."""
    names = ["recipe", *(["attack"] if table.attacks else []), "n", *map(_head, table.metrics)]
    if table.compares:
        points = metric_of(present(table.leak, "leak")).unit == "percent"
        names += ["reduction, points" if points else "reduction"]
    has_verdicts = any(row.verdict for row in table.rows)
    names += ["verdict"] if has_verdicts else []
    words = {0, 1 if table.attacks else 0, len(names) - 1 if has_verdicts else 0}
    rule = ["---" if number in words else "---:" for number in range(len(names))]
    lines = [_line(names), _line(rule)]
    for row in table.rows:
        cells = [f"{_text(row.recipe)}{f' ({row.role})' if row.role else ''}"]
        cells += [_text(row.attack)] if table.attacks else []
        cells += [_text(row.seeds), *(_cell(metric_of(key), row.metrics[key]) for key in table.metrics)]
        if table.compares:
            leak = metric_of(present(table.leak, "leak"))
            cells += ["" if row.reduction is None else _cell(leak, row.reduction, is_reduction=True)]
        lines.append(_line([*cells, *([row.verdict] if has_verdicts else [])]))
    return "\n".join([*lines, "", _text(table.caption)]) + "\n"


def csv_table(table: PrintedTable) -> str:
    """A line per row, every number unrounded with its interval, its seeds and whether it differs from the baseline;
    rates as fractions. Names have plain minus signs and spaces, as in the Parquet tables."""
    columns = ["recipe", "attack", "role", "seeds"]
    for key in [*table.metrics, *(["reduction"] if table.compares else [])]:
        columns += [key, f"{key}_low", f"{key}_high", f"{key}_seeds", f"{key}_differs"]
    columns += ["p", "verdict"] if table.compares else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in table.rows:
        values = [row.recipe, row.attack, row.role, row.seeds]
        for key in table.metrics:
            values += _numbers(row.metrics[key])
        if table.compares:
            values += [*_numbers(row.reduction), "" if row.p is None else repr(row.p), row.verdict]
        writer.writerow([printable(typable(value), most=len(value)) for value in values])
    return text.getvalue()


def _numbers(estimate: Estimate | None) -> list[str]:
    if estimate is None or estimate.value is None:
        return [""] * 5
    ends = ["" if end is None else repr(float(end)) for end in (estimate.value, estimate.low, estimate.high)]
    return [*ends, str(estimate.seeds), "yes" if estimate.differs else "no"]


def _head(key: str) -> str:
    spec = metric_of(key)
    return f"{spec.label}, %" if spec.unit == "percent" else spec.label


def _cell(spec: Metric, estimate: Estimate, *, is_reduction: bool = False) -> str:
    mean, ends = shown_reduction(spec, estimate) if is_reduction else shown_estimate(spec, estimate)
    return f"{f'**{mean}**' if estimate.differs else mean} {ends}".strip()


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text, most=len(text)))
