"""A figure for each table of docs/results.md, drawn from the table itself: `python -m tools.result_figures`.

A comment above a table says what is drawn of it:

    <!-- figure every-attack: 0.1; plain; −0.05; −0.2 | share recognised by the independent judge, % -->

the figure's name, the columns (their heads, without what follows a comma where that is unambiguous; `head = words`
where the key says it shorter), the words of the axis, and after `| without` a row of another quantity. The image link
beneath the comment leads to docs/figures/NAME.svg. A cell is a number with its interval, `51.4 % [36, 67]` or
`+5.6 [−20, +31]`, or a number alone; other cells leave their place empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.page.drawing.canvas import INK, LINE, SOFT, Canvas, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (DOCS / "results.md",)
FOLDER = DOCS / "figures"
MARK = re.compile(
    r"<!-- figure (?P<name>[\w-]+): (?P<columns>[^|]+) \| (?P<axis>[^|]+?)(?: \| without (?P<row>.+))? -->"
)
NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?"
CELL = re.compile(rf"\**(?P<value>{NUMBER})(?: ?%)?(?: \[(?P<low>{NUMBER}), (?P<high>{NUMBER})\])?\**")
COLOURS = ("#0b4f6c", "#4a4a4a", "#d98a3d", "#a8320a", "#5b9fb5", "#7a5195")
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 560.0, 190.0, 16.0, 44.0, 42.0
STEP, GAP, TWO_LINES = 11.0, 12.0, 32.0
"""Pixels from one column's dot to the next within a row, between rows, and of a row whose name takes two lines."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A cell of a table. low, high: its interval, None for a number alone."""

    row: str
    column: str
    value: float
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """What its mark says."""
        interval = "" if self.low is None else f" [{self.low:g}, {self.high:g}]"
        return f"{self.row}, {self.column}: {self.value:g}{interval}"


@dataclass(frozen=True, kw_only=True)
class ResultFigure:
    """What is drawn of one table: its rows from the top, its columns in their order."""

    name: str
    axis: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    points: tuple[Point, ...]


def figures_of(text: str) -> Iterator[ResultFigure]:
    """The figures that a page asks for. Raises ValueError for a column that its table lacks."""
    for mark in MARK.finditer(text):
        head, rows = _table_after(text[mark.end() :])
        asked = [[part.strip() for part in name.split(" = ")] for name in mark["columns"].split(";")]
        places, wanted = [_place(head, names[0], mark["name"]) for names in asked], [names[-1] for names in asked]
        names = _row_names(head, rows, places)
        points = [
            point
            for cells, row in zip(rows, names, strict=True)
            for place, column in zip(places, wanted, strict=True)
            if row != mark["row"] and (point := _point(cells[place], row, column)) is not None
        ]
        drawn = tuple(dict.fromkeys(point.row for point in points))
        yield ResultFigure(
            name=mark["name"], axis=mark["axis"], rows=drawn, columns=tuple(wanted), points=tuple(points)
        )


def drawing(figure: ResultFigure) -> bytes:
    """The figure as an SVG file on white, a row for each row of the table, a colour for each column."""
    tall = max(STEP * len(figure.columns) + GAP, TWO_LINES if any("\n" in _wrapped(row) for row in figure.rows) else 0)
    height = TOP + tall * len(figure.rows) + BOTTOM
    canvas = Canvas(WIDTH, height, f"{figure.axis}: {', '.join(figure.columns)}")
    axes = canvas.axes(LEFT, TOP, WIDTH - RIGHT, height - BOTTOM, grid="x")
    axes.set_ylim(tall * len(figure.rows), 0)
    for point in figure.points:
        at = figure.columns.index(point.column)
        y = (figure.rows.index(point.row) + 0.5) * tall + STEP * (at + 0.5 - len(figure.columns) / 2)
        colour = COLOURS[at]
        if point.low is not None and point.high is not None:
            axes.plot([point.low, point.high], [y, y], color=colour, lw=1.6, zorder=2)
        (dot,) = axes.plot([point.value], [y], "o", ms=6.5, color=colour, zorder=3, clip_on=False)
        canvas.tell(dot, point.words)
    for at, row in enumerate(figure.rows):
        axes.axhline(at * tall, color=LINE, lw=0.7, zorder=1)
        place = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
        axes.text(-0.02, (at + 0.5) * tall, _wrapped(row), **place, fontsize=11, color=INK)
    if any(point.value < 0 or (point.low or 0) < 0 for point in figure.points):
        axes.axvline(0, color=SOFT, lw=1.2, zorder=1)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(plain)
    axes.set_xlabel(figure.axis, fontsize=11, color=SOFT)
    _key(axes, figure.columns)
    white = rb'\1<rect width="100%" height="100%" fill="#ffffff"/>'  # readable on a dark page too
    return re.sub(rb"(<svg\b[^>]*>)", white, canvas.svg_file(), count=1)


def main() -> None:
    """Draw all figures of the results."""
    for page in PAGES:
        for figure in figures_of(page.read_text(encoding="utf-8")):
            write_file(FOLDER / f"{figure.name}.svg", drawing(figure), parents=True)


def _table_after(text: str) -> tuple[list[str], list[list[str]]]:
    lines = [line for line in text[text.index("\n| ") + 1 :].split("\n\n")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]
    return cells[0], cells[2:]


def _place(head: Sequence[str], name: str, figure: str) -> int:
    found = [at for at, one in enumerate(head) if one == name] or [
        at for at, one in enumerate(head) if one.split(",")[0] == name
    ]
    if len(found) != 1:
        raise ValueError(f"figure {figure}: expected one column {name!r} in the table, got {head}")
    return found[0]


def _row_names(head: Sequence[str], rows: Sequence[Sequence[str]], places: Sequence[int]) -> list[str]:
    """The first cell of each row, with those that follow it where it names several."""
    first = [_text(cells[0]) for cells in rows]
    if len(set(first)) == len(first) or 1 in places:
        return first
    return [f"{_text(cells[0])}, {_text(cells[1])}" for cells in rows]


def _text(cell: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("*", "").replace("`", "")


def _point(cell: str, row: str, column: str) -> Point | None:
    found = CELL.match(cell)
    if found is None:
        return None
    value, low, high = (
        None if one is None else float(one.replace("−", "-").replace(",", "")) for one in found.groups()
    )
    return None if value is None else Point(row=row, column=column, value=value, low=low, high=high)


def _wrapped(words: str, most: int = 28) -> str:
    """On two lines where one is too long, broken at the space nearest to the middle."""
    spaces = [at for at, letter in enumerate(words) if letter == " "]
    if len(words) <= most or not spaces:
        return words
    at = min(spaces, key=lambda place: abs(place - len(words) / 2))
    return f"{words[:at]}\n{words[at + 1 :]}"


def _key(axes: Axes, columns: Sequence[str]) -> None:
    """Which colour is which column."""
    if len(columns) == 1:
        return
    marks = [axes.plot([], [], "o", ms=6.5, color=COLOURS[at], label=column)[0] for at, column in enumerate(columns)]
    place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(columns), "borderaxespad": 0.2}
    axes.legend(handles=marks, **place, frameon=False, fontsize=11, labelcolor=SOFT, handletextpad=0.1)


if __name__ == "__main__":
    main()
