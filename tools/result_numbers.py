"""The numbers that a report shows, as a small file that the tables of docs/results are written from.

    python -m tools.result_numbers REPORT.html NAME

REPORT.html is what `smoothsweep report` wrote, or a page of docs/gallery. docs/results/numbers/NAME.csv gets a row for
each measure of each recipe under each attack, with its interval, and for each verdict. Digits are those of the report.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from html.parser import HTMLParser
from pathlib import Path

from smoothsweep.core.files import write_file
from smoothsweep.core.tree import TREE

FOLDER = TREE / "docs" / "results" / "numbers"
NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
INTERVAL = rf"\[({NUMBER}), ({NUMBER})\]"
VALUE = re.compile(rf"({NUMBER})( %)?(?: {INTERVAL})?")
COMPARED = re.compile(rf"({NUMBER})(?: points)?(?: (higher|lower))? {INTERVAL}")
KEPT = ("Test accuracy", "Independent judge", "Evaluator", "Face distance", "Knowledge extracted, train", "Logit gap")
KEPT += ("Gradient stability", "Saturated steps", "Training accuracy", "Robust accuracy", "Zero gradients")
KEPT += tuple(f"{attack}, untargeted" for attack in ("FGSM", "PGD", "PGD on the margin", "Auto-PGD"))
KEPT += ("Backdoor success", "Target class without trigger", "Verified at 1 %", "Reach of the prior, verified at 1 %")
ALONE = "under this attack alone"
VERDICT, REDUCTION = "verdict", "Reduction, points"
MARK = " control: no attack"
"""What a report says after the name of a control."""
WORDS = ("reduces", "hides", "leaks more", "inconclusive", "finds less", "finds more")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One number of a report.

    Attributes:
        recipe: as the report names it.
        attack: as the report names it; empty where a sweep has one, and for a verdict, which is about the strongest.
        measure: title of the column: `Test accuracy`, `Independent judge`, ...; `verdict` for a verdict.
        n: training seeds, where the report says it beside the recipe.
        value: the estimate, with the digits of the report; a verdict's reduction.
        unit: `%`, or empty.
        low: lower end of its interval; empty without one.
        high: upper end.
        difference: the comparison with the baseline: a leak's reduction, else the difference; a verdict's hidden part.
        difference_low: lower end of the comparison's interval.
        difference_high: upper end.
        word: of a verdict.
    """

    recipe: str
    attack: str = ""
    measure: str
    n: str = ""
    value: str = ""
    unit: str = ""
    low: str = ""
    high: str = ""
    difference: str = ""
    difference_low: str = ""
    difference_high: str = ""
    word: str = ""


@dataclass(frozen=True, kw_only=True)
class _Row:
    kind: str
    cells: Sequence[str]


class _Tables(HTMLParser):
    """Collects the rows of every table as texts: one space between the pieces of a cell, icons and hints left out."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[_Row]] = []
        self._every = False
        self._kind, self._cells, self._cell, self._drawing = "", [""], False, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
            self._every = dict(attrs).get("class") == "every"
        elif tag == "tr":
            self._kind, self._cells = dict(attrs).get("class") or "", []
        elif tag in ("td", "th"):
            self._cells.append("")
            self._cell = True
        self._drawing += tag == "svg"

    def handle_endtag(self, tag: str) -> None:
        self._drawing -= tag == "svg"
        if tag in ("td", "th"):
            self._cell = False
        elif tag == "tr" and self.tables:
            kind = f"{'every ' if self._every else ''}{self._kind}"
            self.tables[-1].append(_Row(kind=kind, cells=[plain(cell) for cell in self._cells]))

    def handle_data(self, data: str) -> None:
        if self._cell and not self._drawing:
            self._cells[-1] += f" {data}"


def plain(text: str) -> str:
    """A report's text with the signs of a keyboard and single spaces."""
    return " ".join(text.replace("−", "-").split())


def shown(report: str) -> list[Shown]:
    """Every number of a report's tables of recipes, once. Raises ValueError if the text has no such table."""
    parser = _Tables()
    parser.feed(report)
    found: dict[tuple[str, str, str], Shown] = {}
    settings = [table for table in parser.tables if table and table[0].cells[:1] == ["Setting"]]
    if settings:
        return [one for table in settings for one in (*_of_settings(table), *_first_verdicts(table))]
    groups = [row.cells[0] for table in parser.tables for row in table if row.kind.endswith("group")]
    controls = [one.removesuffix(MARK) for one in groups if one.endswith(MARK)]
    several = any(table and table[0].cells[-1].endswith(ALONE) for table in parser.tables)
    for table in parser.tables:
        for each in _numbers(table, several=several):
            one = replace(each, attack=_without_mark(each.attack, controls))
            key = (one.recipe, one.attack, one.measure)
            if key not in found or not found[key].difference_low:
                found[key] = one if key not in found else _joined(found[key], one)
    if all(one.measure != VERDICT for one in found.values()):  # a report of one attack has them on its first screen
        found |= {(one.recipe, "", VERDICT): one for table in parser.tables for one in _first_verdicts(table)}
    if not found:
        raise ValueError("expected a report of smoothsweep with a table of recipes, got none")
    return list(found.values())


def _without_mark(attack: str, controls: Sequence[str]) -> str:
    plain = attack.removesuffix(MARK)
    return f"{plain} (control)" if plain in controls else plain


def _joined(first: Shown, second: Shown) -> Shown:
    return Shown(**{one.name: getattr(first, one.name) or getattr(second, one.name) for one in fields(Shown)})


def _numbers(table: Sequence[_Row], *, several: bool) -> Iterator[Shown]:
    """several: whether the report is of several attacks, each with its own rows."""
    titles, attack = table[0].cells if table else [], ""
    if not titles or titles[0] != "Recipe":
        return
    verdicts = titles[1:3] == ["Verdict", REDUCTION]
    rates = titles[-1].endswith(ALONE) if several else titles[1] == "n"
    if not (verdicts or rates or table[0].kind.startswith("every")):
        return
    for row in table[1:]:
        if row.kind.endswith("group"):
            attack = row.cells[0]
        elif verdicts:
            yield _verdict(titles, row.cells)
        elif len(row.cells) == len(titles):
            yield from _measures(titles, row.cells, attack)


def _first_verdicts(table: Sequence[_Row]) -> Iterator[Shown]:
    """Of the table on the first screen."""
    for row in table[1:] if table and table[0].cells[-1] == REDUCTION else ():
        name, told = _name(row.cells[0]), row.cells[-1]
        word = next((one for one in WORDS if told.startswith(one)), None)
        if word is not None:
            value, low, high = _ends(told.removeprefix(word))
            yield Shown(recipe=name, measure=VERDICT, value=value, low=low, high=high, word=word)


def _of_settings(table: Sequence[_Row]) -> Iterator[Shown]:
    """Accuracy and leak of every setting of a sweep that compares settings, under its name."""
    for row in table[1:]:
        for measure, text in zip(("Test accuracy", "Independent judge"), row.cells[1:3], strict=True):
            value, low, high = _ends(text)
            yield Shown(recipe=_name(row.cells[0]), measure=measure, value=value, unit="%", low=low, high=high)


def _verdict(titles: Sequence[str], cells: Sequence[str]) -> Shown:
    by_title = dict(zip(titles, cells, strict=True))
    value, low, high = _ends(by_title[REDUCTION])
    hidden, hidden_low, hidden_high = _ends(by_title.get("Hidden, points", ""))
    return Shown(
        recipe=_name(cells[0]), measure=VERDICT, value=value, low=low, high=high, word=by_title["Verdict"],
        difference=hidden, difference_low=hidden_low, difference_high=hidden_high,
    )  # fmt: skip


def _ends(text: str) -> tuple[str, str, str]:
    found = VALUE.search(text)
    return ("", "", "") if found is None else (found[1], found[3] or "", found[4] or "")


def _measures(titles: Sequence[str], cells: Sequence[str], attack: str) -> Iterator[Shown]:
    name, n = _name(cells[0]), ""
    alone = cells[-1] if titles[-1].endswith(ALONE) else ""
    for title, text in zip(titles[1:], cells[1:], strict=True):
        if title == "n":
            n = text.split(" ")[0]
            continue
        measure = re.sub(r" (more|less) is better$", "", title)
        found = VALUE.match(text)
        if found is None or measure not in KEPT:
            continue
        rest = alone if measure == "Independent judge" else text[found.end() :]
        difference, low, high = _compared(rest)
        yield Shown(
            recipe=name, attack=attack, measure=measure, n=n, value=found[1], unit=(found[2] or "").strip(),
            low=found[3] or "", high=found[4] or "", difference=difference, difference_low=low, difference_high=high,
        )  # fmt: skip


def _compared(text: str) -> tuple[str, str, str]:
    found = COMPARED.search(text)
    if found is None:
        return "", "", ""
    return ("-" if found[2] == "lower" else "") + found[1], found[3], found[4]


def _name(cell: str) -> str:
    """A recipe without the tags that stand beside it."""
    tags = "baseline|lowest measured|least leak|on the frontier|frontier"
    return re.sub(rf" ({tags}|test accuracy below {NUMBER} %)$", "", cell)


def written(rows: Sequence[Shown]) -> str:
    """The text of a file of numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in fields(Shown)])
    writer.writerows(astuple(one) for one in rows)
    return text.getvalue()


def read(name: str, folder: Path = FOLDER) -> list[Shown]:
    """The numbers of a section. Raises ValueError for other columns, or a leak or a verdict without its interval."""
    file = folder / f"{name}.csv"
    with file.open(newline="") as opened:
        reader = csv.DictReader(opened)
        if reader.fieldnames != [one.name for one in fields(Shown)]:
            raise ValueError(f"{file.name}: expected the columns of Shown, got {reader.fieldnames}")
        rows = [Shown(**row) for row in reader]
    for one in rows:
        if one.measure in (VERDICT, "Independent judge", "Evaluator") and not (one.low and one.high):
            raise ValueError(f"{file.name}: expected an interval, got none: {one.recipe}, {one.attack}, {one.measure}")
        if (one.measure == VERDICT) != (one.word in WORDS):
            raise ValueError(f"{file.name}: expected one of {', '.join(WORDS)} for a verdict, got {one.word!r}")
    return rows


if __name__ == "__main__":
    _, page, section = sys.argv
    write_file(FOLDER / f"{section}.csv", written(shown(Path(page).read_text())))
