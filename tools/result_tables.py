"""The tables of results in README and docs/results, written from the files in docs/results/numbers.

    python -m tools.result_tables

A table stands between `<!-- NAME table: begin -->` and `<!-- NAME table: end -->`, so that no number on such a page is
typed by hand; a test writes all of them anew and compares. tools/result_tables_list.py says which file a table shows.
A recipe beside a baseline always has its interval and its word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core.files import write_file
from smoothsweep.core.tree import TREE
from tools.result_numbers import FOLDER, VERDICT, Shown, read
from tools.result_tables_list import TABLES, Sheet

JUDGE, ACCURACY, CONTROL = "Independent judge", "Test accuracy", " (control)"
REDUCED = (JUDGE, "Evaluator")
MINUS = re.compile(r"(?<![\w-])-(?=\d)")


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The rows of a file of numbers, found by recipe, attack and measure."""

    rows: Sequence[Shown]

    @property
    def recipes(self) -> list[str]:
        """In the order of the report; a recipe without a verdict is the baseline."""
        return list(dict.fromkeys(one.recipe for one in self.rows if one.measure != VERDICT))

    @property
    def attacks(self) -> list[str]:
        return list(dict.fromkeys(one.attack for one in self.rows if one.measure == JUDGE))

    def one(self, recipe: str, attack: str, measure: str) -> Shown | None:
        found = (one for one in self.rows if (one.recipe, one.attack, one.measure) == (recipe, attack, measure))
        return next(found, None)

    def any_of(self, recipe: str, measure: str) -> Shown:
        """A measure that is the same under every attack, as test accuracy is."""
        return next(one for one in self.rows if (one.recipe, one.measure) == (recipe, measure))

    def measured(self, measure: str) -> bool:
        return any(one.measure == measure for one in self.rows)

    def strongest(self, recipe: str, measure: str = JUDGE) -> Shown:
        """The highest rate of a recipe under an attack that is no control."""
        found = [one for one in self.rows if (one.recipe, one.measure) == (recipe, measure)]
        return max((one for one in found if not one.attack.endswith(CONTROL)), key=lambda one: float(one.value))


def written(sheet: Sheet, rows: Sequence[Shown]) -> str:
    """The Markdown of a table. Raises ValueError for a recipe that has neither a verdict nor is a baseline."""
    numbers = Numbers(rows=rows)
    without = [one for one in numbers.recipes if not _compares(sheet, numbers, one)]
    if len(without) != sheet.baselines:
        many = "one recipe" if sheet.baselines == 1 else f"{sheet.baselines} recipes"
        raise ValueError(f"{sheet.numbers}: expected {many} without a verdict, the baseline, got {without}")
    titles, cells = KINDS[sheet.kind](sheet, numbers)
    left = sum(title in ("recipe", "setting", "attack", "measure") for title in titles)
    rule = ["---" if i < left or title == "verdict" else "---:" for i, title in enumerate(titles)]
    return "".join(f"| {' | '.join(MINUS.sub('−', cell) for cell in line)} |\n" for line in [titles, rule, *cells])


def _compares(sheet: Sheet, numbers: Numbers, recipe: str) -> bool:
    """Whether a recipe is compared with the baseline: by its verdict, or by the measures that a sheet compares."""
    if sheet.kind != "measures":
        return numbers.one(recipe, "", VERDICT) is not None
    return all((one := numbers.one(recipe, "", measure)) and one.difference_low for measure in sheet.compared)


def rate(one: Shown | None) -> str:
    """A number with its interval, or that there is none; empty where it was not measured."""
    if one is None:
        return ""
    return f"{one.value}{' %' if one.unit else ''} {f'[{one.low}, {one.high}]' if one.low else '(no interval)'}"


def _change(value: str, low: str, high: str) -> str:
    return f"{value} [{low}, {high}]" if value else ""


def _recipes(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    attacks = [one for one in numbers.attacks if not one.startswith(sheet.left_out)]
    hidden = any(one.measure == VERDICT and one.difference for one in numbers.rows)
    titles = ["recipe", "n", "test accuracy", *(sheet.named(one) for one in attacks)]
    titles += ["reduction, points", *(["hidden, points"] if hidden else []), "verdict"]
    lines = []
    for recipe in numbers.recipes:
        best = numbers.strongest(recipe).attack
        accuracy, told = numbers.any_of(recipe, ACCURACY), numbers.one(recipe, "", VERDICT)
        rates = [rate(numbers.one(recipe, one, JUDGE)) for one in attacks]
        rates = [f"**{text}**" if one == best else text for one, text in zip(attacks, rates, strict=True)]
        lines.append([recipe, accuracy.n, rate(accuracy), *rates, *_told(told, hidden)])
    return titles, lines


def _told(told: Shown | None, hidden: bool) -> list[str]:
    if told is None:
        return ["", *([""] if hidden else []), "baseline"]
    part = [_change(told.difference, told.difference_low, told.difference_high)] if hidden else []
    word = told.word if told.word == "inconclusive" else f"**{told.word}**"
    return [_change(told.value, told.low, told.high), *part, word]


def _attacks(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    best = {recipe: numbers.strongest(recipe, sheet.measure).attack for recipe in numbers.recipes}
    lines = []
    for attack in numbers.attacks:
        rates = [rate(numbers.one(recipe, attack, sheet.measure)) for recipe in numbers.recipes]
        marked = [f"**{text}**" if best[r] == attack else text for r, text in zip(numbers.recipes, rates, strict=True)]
        lines.append([sheet.named(attack), *marked])
    return ["attack", *numbers.recipes], lines


def _verdicts(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    lines = []
    for recipe in numbers.recipes:
        told, leak = numbers.one(recipe, "", VERDICT), numbers.strongest(recipe)
        lines.append([recipe, rate(numbers.any_of(recipe, ACCURACY)), rate(leak), *_told(told, sheet.hidden)])
    titles = [sheet.rows, "test accuracy", "leak (independent judge)", "reduction, points"]
    return [*titles, *(["hidden, points"] if sheet.hidden else []), "verdict"], lines


def _measure(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    """One measure of every recipe, and its comparison with the baseline."""
    lines = []
    for recipe in numbers.recipes:
        for attack in dict.fromkeys(one.attack for one in numbers.rows if one.measure == sheet.measure):
            one = numbers.one(recipe, attack, sheet.measure)
            if one is not None:
                compared = _change(one.difference, one.difference_low, one.difference_high)
                lines.append([recipe, *([sheet.named(attack)] if attack else []), one.n, rate(one), compared])
    with_attack = any(len(line) == 5 for line in lines)
    return ["recipe", *(["attack"] if with_attack else []), "n", sheet.title, "against the baseline"], lines


def _measures(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    """Several measures of every recipe, and of some the difference from the baseline."""
    titles, lines = ["recipe", "n"], []
    for measure, title in sheet.measures.items():
        beside = "reduction" if measure in REDUCED else "difference"  # of a leak, positive leaks less
        titles += [title, *([beside] if measure in sheet.compared else [])]
    for recipe in numbers.recipes:
        cells = [recipe, numbers.any_of(recipe, next(iter(sheet.measures))).n]
        for measure in sheet.measures:
            one = numbers.one(recipe, "", measure)
            cells.append(rate(one))
            if measure in sheet.compared:
                cells.append(_change(one.difference, one.difference_low, one.difference_high) if one else "")
        lines.append(cells)
    return titles, lines


def _leaks(sheet: Sheet, numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    """Membership by each attack beside inversion, what scores and labels find less, and the word by scores."""
    shown = {measure: title for measure, title in LEAKS.items() if numbers.measured(measure)}
    lines = []
    for recipe in numbers.recipes:
        rates = [numbers.one(recipe, "", measure) for measure in shown]
        labels, told = numbers.one(recipe, "", BY_LABELS), numbers.one(recipe, "", VERDICT)
        less = _change(labels.difference, labels.difference_low, labels.difference_high) if labels else ""
        by_scores, word = _told(told, hidden=False)
        n = next(one.n for one in rates if one)
        lines.append([recipe, n, *(rate(one) for one in rates), by_scores, less, word])
    return ["recipe", "n", *shown.values(), "less by scores, points", "less by labels, points", "verdict"], lines


BY_LABELS = "Membership by labels"
LEAKS = {
    "Membership by shadow models": "AUC, shadow models",
    "Membership by scores": "AUC, margin",
    BY_LABELS: "AUC, labels",
    "Inversion": "inversion",
}
"""Measure of a file of numbers -> title in the table of two leaks."""

KINDS = {
    "recipes": _recipes,
    "attacks": _attacks,
    "verdicts": _verdicts,
    "measure": _measure,
    "measures": _measures,
    "leaks": _leaks,
}


def placed(page: str, name: str, table: str) -> str:
    """A page with a table between its marks. Raises ValueError if it has no such marks."""
    begin, end = f"<!-- {name} table: begin -->\n", f"<!-- {name} table: end -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"expected the marks of the table {name}, got none")
    return f"{before}{begin}{table}{end}{after}"


def page_of(path: str, text: str, folder: Path = FOLDER) -> str:
    """The text of a page with all of its tables written anew."""
    for name, sheet in TABLES.items():
        if path in sheet.pages:
            text = placed(text, name, written(sheet, read(sheet.numbers, folder)))
    return text


if __name__ == "__main__":
    for each in sorted({page for sheet in TABLES.values() for page in sheet.pages}):
        write_file(TREE / each, page_of(each, (TREE / each).read_text()))
