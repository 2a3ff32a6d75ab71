"""Every column of numbers on a report's page says its unit: in its cells, or in its head."""

import re
from html import unescape

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


def tables(page):
    """Class, heads, and rows of cells as text, of every table of a page."""
    found = []
    for name, inside in re.findall(r'<table class="([^"]*)">(.*?)</table>', page, re.DOTALL):
        head, _, body = inside.partition("</thead>")
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in (head, *body.split("<tr")[1:])]
        heads, *cells = [[" ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in rows]
        found.append((name, heads, cells))
    return found


def bare(page):
    """(class of the table, head, cell) of numbers without a unit in cell or head; and how many columns were read."""
    found, read = [], 0
    for name, heads, rows in tables(page):
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
    return name == "sheet" or plain in f"{COUNTS}|{NAMES}".split("|") or bool(known) or "auc" in plain


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
    found, read = bare(render(data, result_of(data, summarise(data))))
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]


def test_a_difference_from_the_paper_is_in_points_where_the_row_is_a_rate():
    data = sweep_data()
    page = render(data, result_of(data, summarise(data)))
    (rows,) = (rows for name, _, rows in tables(page) if name == "published")
    told = [row for row in rows if len(row) == 6 and row[4][-1:] != "\u2013"]
    assert {"%" in row[2] for row in told} == {True, False}
    assert all(row[4].endswith(" points") == ("%" in row[2]) for row in told)


def test_so_has_the_page_of_an_audit():
    page = audit_page(test_audit.read(test_audit.data()), name="model.pt", facts={}, portraits={})
    found, read = bare(page)
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]
