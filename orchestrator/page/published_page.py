"""The paper's numbers on the page: one block per recipe, ours beside the printed ones, metric by metric."""

from __future__ import annotations

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.page import section
from orchestrator.reading.numbers.format import ABSENT, interval, is_null, listing, number, signed
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary
from orchestrator.reading.published.comparison import (
    SYMBOLS,
    Block,
    Line,
    Published,
    beside_paper,
    dataset_names,
    printed,
    row_words,
    share_words,
)

PROTOCOL_NOTES = {
    "paper": "Our numbers follow protocol paper, the official code's conventions, as the printed ones do.",
    "clean": "Our numbers follow protocol clean, the printed ones the official code's conventions. FID and the "
    "evaluator distance are therefore not comparable; of the rest compare directions, not digits.",
}
HEADS = ("Metric", "The paper", "This sweep", "n", "Difference", "Within our interval?")
COLUMNS = len(HEADS)


def published_section(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    """The section, empty where the sweep names no table."""
    published = beside_paper(data, summary)
    if published is None:
        return Markup("")
    level = f"{100 * summary.settings.level:g}\u00a0%"
    lead = (
        f"The numbers of Table {published.table} ({dataset_names(published)}), in italics, are "
        f"the paper's, each from one attack on one target. Ours are means over n seeds with {level} intervals. A "
        "number lies within where the interval reaches one that would be printed the same."
    )
    return section(
        f"Beside the paper's Table {published.table}",
        lead,
        tag("p", tag("strong", share_words(published.counts))),
        tag("p", PROTOCOL_NOTES[published.protocol], class_=f"protocol {published.protocol}"),
        _listed("Departures from the paper's settings that all recipes here share:", published.departures),
        _table(published, colours),
        _listed("Recipes here that the table does not have:", _strangers(published)),
        _listed("Rows of the table that this sweep does not have:", published.absent),
        ident="paper",
    )


def _strangers(published: Published) -> tuple[str, ...]:
    return tuple(f"{recipe}: {reason}" for recipe, reason in published.strangers.items())


def _listed(words: str, items: tuple[str, ...]) -> Markup:
    if not items:
        return Markup("")
    return tag("div", tag("p", words), tag("ul", *(tag("li", item) for item in items)), class_="listed")


def _table(published: Published, colours: Colours) -> Markup:
    if not published.blocks:
        return Markup("")
    heads = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in HEADS)))
    bodies = [_block(block, published.protocol, colours) for block in published.blocks]
    table = tag("table", heads, *bodies, class_="published")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="ours beside the paper's numbers")


def _block(block: Block, protocol: str, colours: Colours) -> Markup:
    """One recipe: a heading row, then a row per metric."""
    ours = tag("span", block.recipe, class_="named")
    attack = tag("span", f" \u00b7 {block.attack}", class_="soft") if block.attack else ""
    theirs = tag("span", f"Table {block.row.first.table}: {row_words(block.row)}", class_="theirs")
    notes = [*block.row.notes, *(f"departs here: {listing(block.departures)}" for _ in block.departures[:1])]
    lines = [tag("span", note, class_="note") for note in notes]
    marked = tag("span", f"protocol {protocol}", class_="tag")
    head = tag("th", ours, attack, marked, tag("br"), theirs, *lines, colspan=COLUMNS, scope="rowgroup")
    rows = [_row(line) for line in block.lines]
    return tag("tbody", tag("tr", head, class_="group"), *rows, class_=f"block {colours.css_class(block.recipe)}")


def _row(line: Line) -> Markup:
    label = tag("abbr", line.spec.label[:1].upper() + line.spec.label[1:], title=line.spec.description)
    symbol = SYMBOLS.get(line.spec.key, line.spec.label)
    theirs = tag("span", f" {symbol}", class_="soft") if symbol != line.spec.label else ""
    return tag(
        "tr",
        tag("th", label, theirs, scope="row"),
        tag("td", printed(line.paper, line.spec) or tag("span", "not printed", class_="soft"), class_="theirs"),
        tag("td", _ours(line), class_="ours"),
        tag("td", line.n or ABSENT),
        tag("td", ABSENT if is_null(line.difference) else signed(line.spec, line.difference)),
        tag("td", _mark(line)),
        class_=line.mark.replace(" ", "-"),
    )


def _ours(line: Line) -> Markup:
    if is_null(line.mean):
        return tag("span", "not measured", class_="soft")
    ends = interval(line.spec, line.low, line.high)
    return join(number(line.spec, line.mean), tag("span", f" {ends}" if ends else "", class_="ci"))


def _mark(line: Line) -> Markup:
    """The mark in words, a sign before the two that decide, and what must be known beside it."""
    words = {"within": "\u2713 within", "outside": "\u2717 outside", "not measured": "", "not printed": ""}
    remark = tag("span", line.remark, class_="note") if line.remark else ""
    shown = words.get(line.mark, line.mark)
    return join(tag("span", shown, class_="mark") if shown else "", remark)
