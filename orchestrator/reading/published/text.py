"""The paper's numbers beside ours as plain text for a terminal."""

from __future__ import annotations

import re

from smoothsweep.orchestrator.reading.numbers.format import (
    ABSENT,
    aligned,
    ascii_text,
    interval,
    is_null,
    listing,
    number,
    signed,
)
from smoothsweep.orchestrator.reading.published.comparison import (
    Block,
    Line,
    Published,
    dataset_names,
    printed,
    row_words,
    share_words,
)

HEADS = ("metric", "the paper", "ours", "n", "difference", "")


class Footnotes(dict[str, int]):
    """Numbered footnotes, so that a remark that recurs in many blocks is printed once."""

    def mark(self, remark: str) -> str:
        """The number of a remark, such as `(2)`; empty for an empty remark."""
        return f"({self.setdefault(remark, len(self) + 1)})" if remark else ""


def published_text(published: Published) -> str:
    """The comparison as aligned text: a block per recipe, a line per metric, remarks at the end."""
    notes = Footnotes()
    headings: list[tuple[int, list[str]]] = []
    rows: list[list[str]] = []
    for block in published.blocks:
        headings.append((len(rows), _heading(block, notes)))
        rows += [list(HEADS), *(_cells(line, notes) for line in block.lines)]
    lines = [f"  {line}" for line in aligned(rows, {0, len(HEADS) - 1})]
    for start, heading in reversed(headings):
        lines[start:start] = ["", *heading]
    strangers = [f"Not in the table: {recipe}: {reason}" for recipe, reason in published.strangers.items()]
    absent = [f"Rows of the table without a recipe here: {'; '.join(published.absent)}"] if published.absent else []
    remarks = [*strangers, *absent, *(f"({number}) {remark}" for remark, number in notes.items())]
    parts = [*_title(published), share_words(published.counts), *_departures(published)]
    return ascii_text("\n".join([*parts, *lines, *([""] if remarks else []), *remarks]))


def _title(published: Published) -> list[str]:
    where = dataset_names(published)
    lines = [
        f"Compared with the paper's Table {published.table} ({where}). "
        f"Our numbers follow protocol {published.protocol}."
    ]
    if published.protocol == "clean":
        lines.append(
            "The paper's follow the official code: its FID and evaluator distance are not comparable with ours; of "
            "the rest compare directions, not digits."
        )
    return lines


def _departures(published: Published) -> list[str]:
    """Lines on departures from the paper that all recipes share, one for each section of the sweep file."""
    parts: dict[str, list[str]] = {}
    for departure in published.departures:
        parts.setdefault(re.split("[. ]", departure, maxsplit=1)[0], []).append(departure)
    return [
        f"Departs from the paper's settings ({part}): {', '.join(departures)}" for part, departures in parts.items()
    ]


def _heading(block: Block, notes: Footnotes) -> list[str]:
    ours = f"{block.recipe}, {block.attack}" if block.attack else block.recipe
    marks = "".join(f" {notes.mark(note)}" for note in block.row.notes)
    departures = [f"departs here: {listing(block.departures)}"] if block.departures else []
    return [f"{ours}   [Table {block.row.first.table}: {row_words(block.row)}]{marks}", *departures]


def _cells(line: Line, notes: Footnotes) -> list[str]:
    return [
        line.spec.label,
        printed(line.paper, line.spec) or ABSENT,
        f"{number(line.spec, line.mean)} {interval(line.spec, line.low, line.high)}".strip(),
        str(line.n or ABSENT),
        ABSENT if is_null(line.difference) else signed(line.spec, line.difference),
        f"{line.mark} {notes.mark(line.remark)}".strip(),
    ]
