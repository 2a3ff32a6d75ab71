"""Every column of numbers on a report's page says its unit: in its cells, or in its head."""

import re
from html.parser import HTMLParser

import pytest

from smoothsweep.core.judges.columns import METRICS
from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.orchestrator.result import test_audit
from tests.orchestrator.result.test_leaks import attacked
from tests.orchestrator.result.test_published import sweep_data
from tests.orchestrator.result.test_standing import audited

UNIT = re.compile(r"%|\bpoints\b|\bmin\b|\bh\b|\bseeds?\b|\bs\b|×")
PURE = {metric.label.lower() for metric in METRICS if metric.unit != "percent"}
"""Metrics that are counts, distances or scores: pure numbers, as their descriptions say."""
COUNTS = "n|seed|no.|stages|runs|queries|the paper|this sweep|difference|test accuracy|setting|trial"
"""Heads of counts and names, and those of rows that are of a metric each, whose unit is the row's."""
NAMES = "recipe|metric|of its images|person|class||attack|strongest attack|best attack|cause|state|images"


class Tables(HTMLParser):
    """The tables of a page: class, heads, and rows of cells, as text."""

    def __init__(self, page):
        super().__init__()
        self.found, self.cell, self.heading = [], None, False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.found.append((dict(attrs).get("class"), [], []))
        elif tag == "thead":
            self.heading = True
        elif tag == "tr" and not self.heading:
            self.found[-1][2].append([])
        elif tag in ("th", "td"):
            self.cell = []
        elif tag in ("br", "span", "abbr", "b") and self.cell is not None:
            self.cell.append(" ")

    def handle_endtag(self, tag):
        if tag == "thead":
            self.heading = False
        elif tag in ("th", "td"):
            text = " ".join("".join(self.cell).split())
            (self.found[-1][1] if self.heading else self.found[-1][2][-1]).append(text)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


def bare(page):
    """(class of the table, head, cell) of numbers without a unit in cell or head; and how many columns were read."""
    found, read = [], 0
    for name, heads, rows in Tables(page).found:
        for place, head in enumerate(heads):
            cells = [row[place] for row in rows if len(row) == len(heads)]
            numbers = [cell for cell in cells if re.search(r"(?<![\w.])[+\N{MINUS SIGN}]?\d+(\.\d+)?(?![\w.-])", cell)]
            read += bool(numbers)
            if not UNIT.search(head):
                found += [(name, head, cell) for cell in numbers if not UNIT.search(cell)]
    return found, read


def is_pure(name, head):
    """Whether the numbers of this column have no unit to be told."""
    plain = head.lower()
    known = {words for words in PURE if plain.startswith(words) or plain.endswith(words)}
    return name in ("sheet", "plain orders") or plain in f"{COUNTS}|{NAMES}".split("|") or bool(known) or "auc" in plain


PAGES = {
    "sweep": lambda made, _: made(),
    "defenses": lambda _, defended: defended(only=("dropout", "mixup"), seeds=2, classes=6),
    "hiding": lambda *_: attacked(),
    "fresh": lambda *_: audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.2: 0.26, -0.1: 0.36}),
    "published": lambda *_: sweep_data(),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_column_of_numbers_has_its_unit(name, make_data, defense_data):
    data = PAGES[name](make_data, defense_data)
    found, read = bare(render(data, result_of(data, summarise(data, resamples=50))))
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]


def test_a_difference_from_the_paper_is_in_points_where_the_row_is_a_rate():
    data = sweep_data()
    tables = Tables(render(data, result_of(data, summarise(data, resamples=50)))).found
    rows = [
        row
        for name, _, rows in tables
        if name == "published"
        for row in rows
        if len(row) == 6 and row[4][-1:] != "\u2013"
    ]
    assert {"%" in row[2] for row in rows} == {True, False}
    assert all(row[4].endswith(" points") == ("%" in row[2]) for row in rows)


def test_so_has_the_page_of_an_audit():
    page = audit_page(test_audit.read(test_audit.data()), name="model.pt", facts={}, portraits={})
    found, read = bare(page)
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]
