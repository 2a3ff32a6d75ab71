"""The dictionary of columns: every metric in one row, below who measures it, in a table that fits a page."""

import re

from smoothsweep.core.judges.columns import METRICS, metric_of
from smoothsweep.core.judges.table import JUDGES
from tools import columns


def rows_of(text):
    """Heading -> the cells of every row below it."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    tables = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        lines = [line for line in body.splitlines() if line.startswith("| `")]
        tables[heading] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return tables


def test_every_metric_stands_once_below_who_measures_it():
    tables = rows_of(columns.page())
    found = [(heading, cells[0].strip("| `")) for heading, rows in tables.items() for cells in rows]
    assert sorted(key for _, key in found) == sorted(metric.key for metric in METRICS)
    for heading, key in found:
        by = metric_of(key).measured_by
        assert heading == (f"Judge `{by}`" if by in JUDGES else f"The {by}")


def test_a_row_has_short_cells_but_for_the_meaning_which_comes_second():
    for rows in rows_of(columns.page()).values():
        for cells in rows:
            assert len(cells) == 5 and cells[1].startswith("**"), cells
            assert max(len(cell) for cell in cells[2:]) < 25, cells


def test_a_row_says_unit_direction_and_why_it_may_be_null():
    row = next(cells for cells in rows_of(columns.page())["Judge `embedder`"] if cells[0] == "`embedder_acc1`")
    metric = metric_of("embedder_acc1")
    assert metric.description in row[1] and "Ceiling: `embedder_real_acc`." in row[1]
    assert row[2:] == ["fraction", "low", "leak, search"]
    gap = next(cells for cells in rows_of(columns.page())["The target"] if cells[0] == "`logit_gap`")
    assert gap[1].endswith("*Null*: the target was brought in; its training was not seen.") and gap[2:4] == [
        "number",
        "",
    ]
