"""The paper's numbers beside ours as plain text for a terminal and as Markdown for a README."""

from __future__ import annotations

import re

from orchestrator.reading.findings.tables import escaped
from orchestrator.reading.numbers.format import ABSENT, ascii_text, interval, is_null, listing, number, signed
from orchestrator.reading.published.comparison import (
    Block,
    Line,
    Published,
    dataset_names,
    printed,
    row_words,
    share_words,
)

HEADS = ("metric", "the paper", "ours", "n", "difference", "")


class Footnotes:
    """Remarks that come back in every block, said once: each text gets a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, remark: str) -> str:
        """`(2)`, or nothing for no remark."""
        return f"({self.numbers.setdefault(remark, len(self.numbers) + 1)})" if remark else ""

    @property
    def lines(self) -> list[str]:
        return [f"({index}) {remark}" for remark, index in self.numbers.items()]


def published_text(published: Published) -> str:
    """Aligned plain text: a block per recipe, a line per metric, remarks once at the end."""
    notes = Footnotes()
    blocks = [(_heading(b, notes), [list(HEADS), *(_cells(line, notes) for line in b.lines)]) for b in published.blocks]
    rows = [row for _, table in blocks for row in table]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(HEADS))]
    parts = [*_title(published), share_words(published.counts), *_departures(published)]
    for heading, table in blocks:
        parts += ["", *heading, *(f"  {_aligned(row, widths)}" for row in table)]
    return ascii_text("\n".join([*parts, *_end(published, notes)]))


def published_markdown(published: Published) -> str:
    """The same in Markdown: one table, the recipe in its first column, the paper's numbers in italics."""
    notes = Footnotes()
    paragraphs = [*_title(published), share_words(published.counts), *_departures(published)]
    lines = [part for paragraph in paragraphs for part in (escaped(paragraph), "")]
    if published.blocks:
        lines += [f"| recipe | {' | '.join(HEADS)} |", "| --- | --- | ---: | ---: | ---: | ---: | --- |"]
    for block in published.blocks:
        for index, line in enumerate(block.lines):
            name = f"**{escaped(_ours(block))}**" if index == 0 else ""
            metric, paper, ours, n, difference, mark = _cells(line, notes)
            paper = f"*{paper}*" if line.paper is not None else paper
            ours = ours if is_null(line.mean) else f"**{ours}**"
            lines.append(f"| {' | '.join([name, escaped(metric), paper, ours, n, difference, mark])} |")
    end = [f"* {escaped(line)}" for line in _end(published, notes) if line]
    return "\n".join([*lines, "", *end])


def _title(published: Published) -> list[str]:
    where = dataset_names(published)
    lines = [f"Beside the paper's Table {published.table} ({where}). Our numbers follow protocol {published.protocol}."]
    if published.protocol == "clean":
        lines.append(
            "The paper's follow the official code: its FID and evaluator distance are not comparable with ours; of "
            "the rest compare directions, not digits."
        )
    return lines


def _departures(published: Published) -> list[str]:
    """What all recipes share, a line for each part of the sweep file."""
    parts: dict[str, list[str]] = {}
    for departure in published.departures:
        parts.setdefault(re.split("[. ]", departure, maxsplit=1)[0], []).append(departure)
    return [f"Departs from the paper's settings ({part}): {', '.join(found)}" for part, found in parts.items()]


def _ours(block: Block) -> str:
    return f"{block.recipe}, {block.attack}" if block.attack else block.recipe


def _heading(block: Block, notes: Footnotes) -> list[str]:
    marks = "".join(f" {notes.mark(note)}" for note in block.row.notes)
    departures = [f"departs here: {listing(block.departures)}"] if block.departures else []
    return [f"{_ours(block)}   [Table {block.row.first.table}: {row_words(block.row)}]{marks}", *departures]


def _cells(line: Line, notes: Footnotes) -> list[str]:
    ours = f"{number(line.spec, line.mean)} {interval(line.spec, line.low, line.high)}".strip()
    return [
        line.spec.label,
        printed(line.paper, line.spec) or ABSENT,
        ours,
        str(line.n or ABSENT),
        ABSENT if is_null(line.difference) else signed(line.spec, line.difference),
        f"{line.mark} {notes.mark(line.remark)}".strip(),
    ]


def _aligned(row: list[str], widths: list[int]) -> str:
    last = len(row) - 1
    cells = [
        cell.ljust(width) if column in (0, last) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _end(published: Published, notes: Footnotes) -> list[str]:
    """What has no partner on the other side, and the footnotes."""
    lines = [f"Not in the table: {recipe}: {reason}" for recipe, reason in published.strangers.items()]
    if published.absent:
        lines.append(f"Rows of the table without a recipe here: {'; '.join(published.absent)}")
    return ["", *lines, *notes.lines] if lines or notes.lines else []
