"""The figures of the pages of results, drawn from the tables of those pages.

    python -m tools.result_figures

A page shows `figures/NAME.svg` above a table. The numbers of the figure are read from that table, so that the two
cannot disagree; a test draws all of them anew and compares. tools/result_figures_list.py says which columns are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from smoothsweep.core.files import write_file
from smoothsweep.core.tree import TREE
from tools.result_figures_list import FIGURES, Figure, Panel
from tools.svg_dots import Dots, Point, Row, drawing

DOCS = TREE / "docs"
FOLDER = DOCS / "results" / "figures"
NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
ESTIMATE = re.compile(rf"({NUMBER})(?: %)?(?: \[({NUMBER}), ({NUMBER})\])?")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a page: the texts of its cells, without marks of emphasis."""

    titles: list[str]
    rows: list[list[str]]

    def column(self, title: str) -> int:
        """The place of a column. Raises ValueError if the table has no column of that title."""
        return self.titles.index(title)


def drawn(name: str) -> str:
    """The SVG text of a figure, from the page as it is on disk."""
    figure = FIGURES[name]
    table = table_below((DOCS / figure.page).read_text(), name)
    return drawing([_dots(figure, panel, table) for panel in figure.panels])


def table_below(page: str, name: str) -> Table:
    """The first table below the picture `figures/NAME.svg` of a page. Raises ValueError if there is none."""
    _, found, below = page.partition(f"figures/{name}.svg")
    lines = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    if not found or lines is None:
        raise ValueError(f"figure {name}: expected a picture and a table below it, found none")
    titles, _, *rows = (_cells(line) for line in lines.group(0).splitlines())
    return Table(titles=titles, rows=rows)


def _cells(line: str) -> list[str]:
    return [cell.strip(" *") for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _dots(figure: Figure, panel: Panel, table: Table) -> Dots:
    rows = []
    for cells in table.rows:
        label = ", ".join(cells[table.column(one)] for one in figure.labels)
        points = _points(panel, table, cells)
        if label not in figure.without and any(points):
            rows.append(Row(label=label, points=points))
    names = panel.parts or (panel.names or panel.columns)
    return Dots(axis=panel.axis, names=names, rows=rows, low=panel.low, high=panel.high)


def _points(panel: Panel, table: Table, cells: Sequence[str]) -> list[Point | None]:
    texts = [cells[table.column(one)] if table.column(one) < len(cells) else "" for one in panel.columns]
    if not panel.parts:
        return [estimate(text) for text in texts]
    several = re.findall(NUMBER, _plain(texts[0]).rpartition(":")[2].partition("(")[0])
    return [estimate(one) for one in several] if len(several) == len(panel.parts) else [None]


def estimate(cell: str) -> Point | None:
    """The first number of a cell with its interval, if it has one; None for a cell without a number."""
    found = ESTIMATE.search(_plain(cell))
    if found is None:
        return None
    middle, low, high = (None if part is None else float(part.replace(",", "")) for part in found.groups())
    assert middle is not None
    return Point(middle=middle, low=low, high=high)


def _plain(cell: str) -> str:
    return cell.replace("−", "-").replace("*", "").replace("\N{NO-BREAK SPACE}", " ")


if __name__ == "__main__":
    for each in FIGURES:
        write_file(FOLDER / f"{each}.svg", drawn(each))
