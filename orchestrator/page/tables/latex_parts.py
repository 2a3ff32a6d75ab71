"""Which columns and rows of a table fit one printed page: estimated from the widths of Computer Modern's letters.

TeX is not asked: an export is written where there is none. A test compiles them where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.text import MINUS
from smoothsweep.orchestrator.reading.leak.printed import (
    PrintedRow,
    PrintedTable,
    shown_estimate,
    shown_reduction,
)

TEXT_WIDTH = 345.0
"""Points: of article at 10 points, the narrowest text that a table is written for."""
_TEXT, _SCRIPT = 8.5, 7.9
"""Points of an em of the two sizes in a table (footnotesize is cmr8, scriptsize cmr7), in article at 10 points."""
_GAP = 8.0
"""Points between two columns: \\tabcolsep on both sides."""
_NAME_ROOM = 90.0
"""Points that the names of recipes have at least."""
_HEAD_LINE = 13
"""Characters of a line of a column's head, where its words allow."""
_PAGE_LINES = 34
"""Lines of rows that stand on one page below a caption."""
_EMS = {**dict.fromkeys(" .,:;'![]()|ijl", 0.33), **dict.fromkeys("mwMW%", 0.86), **dict.fromkeys(f"+{MINUS}=×", 0.8)}


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one file shows of a table.

    Attributes:
        metrics: Metrics of the columns between n and the reduction.
        compares: Whether the reduction is its last column.
        heads: Head of every column, its lines from above; all have as many.
        pages: Its rows, page by page.
    """

    metrics: tuple[str, ...]
    compares: bool
    heads: tuple[tuple[str, ...], ...]
    pages: tuple[tuple[PrintedRow, ...], ...]

    @property
    def columns(self) -> int:
        """How many it has."""
        return len(self.heads)


def parts_of(table: PrintedTable, name: Callable[[PrintedRow], str]) -> list[Part]:
    """The deciding columns, then the others, as many at a time as fit. name: the text of a row's first cell."""
    deciding = [key for key in table.metrics if key == table.leak or metric_of(key).group == "utility"]
    groups = [deciding] if deciding else []
    groups += _filled(table, [key for key in table.metrics if key not in deciding])
    compares = [table.compares and number == 0 for number in range(len(groups))]
    return [
        _part(table, tuple(keys), last, name) for keys, last in zip(groups or [[]], compares or [False], strict=True)
    ]


def width(text: str, em: float) -> float:
    """Points of a line of text in Computer Modern, estimated from above by letter."""
    return em * sum(_EMS.get(letter, 0.78 if letter.isupper() else 0.54) for letter in text)


def _part(table: PrintedTable, keys: tuple[str, ...], compares: bool, name: Callable[[PrintedRow], str]) -> Part:
    heads = [["Recipe"], ["n"], *(_head(key) for key in keys)]
    taken = width(max((row.seeds for row in table.rows), key=len, default=""), _TEXT) + 2 * _GAP
    taken += sum(_column(table, key) for key in keys)
    if compares:
        leak = metric_of(present(table.leak, "leak"))
        heads.append(["Reduction", "(pp)"] if leak.unit == "percent" else ["Reduction"])
        cells = [shown_reduction(leak, row.reduction) for row in table.rows if row.reduction is not None]
        taken += max(map(_cell, cells), default=0.0) + _GAP
    deep = max(map(len, heads))
    return Part(
        metrics=keys,
        compares=compares,
        heads=tuple((*[""] * (deep - len(head)), *head) for head in heads),
        pages=tuple(_pages(table, max(TEXT_WIDTH - taken, _NAME_ROOM / 2), name)),
    )


def _filled(table: PrintedTable, keys: list[str]) -> list[list[str]]:
    """The columns in their order, as many in each group as leave room for names."""
    groups: list[list[str]] = []
    room = 0.0
    for key in keys:
        wide = _column(table, key)
        if not groups or wide > room:
            groups.append([])
            room = TEXT_WIDTH - _NAME_ROOM - 3 * _GAP
        groups[-1].append(key)
        room -= wide
    return groups


def _column(table: PrintedTable, key: str) -> float:
    """Points of a metric's column with its gap."""
    cells = (_cell(shown_estimate(metric_of(key), row.metrics[key])) for row in table.rows)
    return max(*cells, *(width(line, _TEXT) for line in _head(key)), 0.0) + _GAP


def _cell(text_and_width: tuple[str, str]) -> float:
    """Points of a mean, bold at worst, and its interval."""
    mean, ends = text_and_width
    return 1.13 * width(mean, _TEXT) + (width(" ", _TEXT) + width(ends, _SCRIPT) if ends else 0.0)


def _head(key: str) -> list[str]:
    spec = metric_of(key)
    words = f"{spec.label[:1].upper()}{spec.label[1:]}{' (%)' if spec.unit == 'percent' else ''}"
    return wrap(words, _HEAD_LINE, break_long_words=False, break_on_hyphens=False)


def _pages(table: PrintedTable, room: float, name: Callable[[PrintedRow], str]) -> Iterator[tuple[PrintedRow, ...]]:
    """The rows, as many at a time as stand on a page. room: points for a name."""
    page: list[PrintedRow] = []
    lines, group = 0.0, None
    for row in table.rows:
        needed = float(math.ceil(1.2 * width(name(row), _TEXT) / room))
        needed += 1.5 * (table.by_attack and row.attack != group)
        if page and lines + needed > _PAGE_LINES:
            yield tuple(page)
            page, lines = [], 1.5 * table.by_attack
        page.append(row)
        lines, group = lines + needed, row.attack
    yield tuple(page)
