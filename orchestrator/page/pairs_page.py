"""Every recipe against every other on the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.metrics.verdicts import CANNOT_TELL, LOWER
from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.page import section
from orchestrator.page.svg import figure, label, text_width
from orchestrator.reading.findings.pairs import chosen_recipes
from orchestrator.reading.findings.sureness import gap_words, named, p_words, sample_words
from orchestrator.reading.numbers.estimates import Comparison
from orchestrator.reading.numbers.evidence import Evidence
from orchestrator.reading.numbers.format import ABSENT, NBSP, count, listing, number, signed
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.summary import Summary

CELL = 13.0
"""Pixels of one square of the full triangle."""



def pairs_section(summary: Summary, colours: Colours) -> Markup:
    """The section, empty with fewer than two recipes to compare."""
    evidence = summary.evidence
    if evidence is None or not evidence.pairs:
        return Markup("")
    chosen = chosen_recipes(summary)
    everyone = sorted(evidence.compared, key=lambda recipe: evidence.sign * evidence.mean(recipe))
    folded = Markup("")
    if len(chosen) < len(everyone):
        head = tag("summary", f"All {count(evidence.pairs, 'pair')} of {len(everyone)} recipes")
        folded = tag("details", head, _triangle(summary, evidence, everyone), class_="prints")
    parts = (_matrix(summary, colours, chosen), _note(summary, chosen, len(everyone)), folded)
    return section("Each recipe against each other", _lead(summary, evidence), *parts, ident="pairs")



def _lead(summary: Summary, evidence: Evidence) -> str:
    spec, level = spec_of(summary.primary), f"{100 * summary.settings.level:g}{NBSP}%"
    attack = ", each under the attack that works best against it" if len(summary.attacks) > 1 else ""
    unit = ", in percentage points" if spec.unit == "percent" else ""
    return (
        f"Row minus column in leak by the {spec.label}{unit}{attack}, paired by seed and class "
        f"({sample_words(summary, len(evidence.seeds))}). Bold: clear after correction for all "
        f"{count(evidence.pairs, 'pair')}, so that the chance of even one false claim stays below "
        f"{100 * (1 - summary.settings.level):g}{NBSP}%. Hover for the interval, which holds for all pairs at once at "
        f"{level}."
    )



def _note(summary: Summary, chosen: Sequence[str], everyone: int) -> Markup:
    evidence = summary.evidence
    lines = []
    if len(chosen) < everyone:
        lines.append("Shown: the choice, the recipes that it cannot be told from, the frontier and the baseline.")
    if len(evidence.seeds) == 1:
        lines.append("With one seed none can be told from another: another training run may turn any difference round.")
    if evidence.left_out:
        seeds = listing(str(seed) for seed in evidence.seeds)
        lines.append(f"Without seed {seeds} and so not compared: {listing(map(named, evidence.left_out))}.")
    below = len(evidence.values) - everyone
    if below:
        floor = number(spec_of("test_acc"), summary.min_test_acc)
        lines.append(f"{count(below, 'recipe')} below {floor} test accuracy {'is' if below == 1 else 'are'} left out.")
    return join(*(tag("p", line, class_="soft") for line in lines))



def _matrix(summary: Summary, colours: Colours, chosen: Sequence[str]) -> Markup:
    """Numbers for the recipes that matter; columns carry the rows' numbers."""
    spec = spec_of(summary.primary)
    heads = [tag("th", "Recipe", scope="col"), tag("th", "Leak", scope="col")]
    heads += [
        tag("th", tag("abbr", place, title=recipe, class_="named"), scope="col", class_=colours.css_class(recipe))
        for place, recipe in enumerate(chosen, start=1)
    ]
    rows = []
    for place, recipe in enumerate(chosen, start=1):
        name = tag("th", tag("span", f"{place} ", class_="soft"), tag("span", recipe, class_="named"), scope="row")
        leak = tag("td", number(spec, summary.evidence.mean(recipe)), class_="value")
        cells = [_cell(summary, recipe, other) for other in chosen]
        rows.append(tag("tr", name, leak, *cells, class_=colours.css_class(recipe), data_recipe=recipe))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="pairs")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="differences between recipes")



def _cell(summary: Summary, recipe: str, other: str) -> Markup:
    if recipe == other:
        return tag("td", ABSENT, class_="soft")
    gap, spec = summary.evidence.against(recipe, other), spec_of(summary.primary)
    return tag("td", signed(spec, gap.difference), class_=_look(summary, gap), title=_words(summary, recipe, other))



def _look(summary: Summary, gap: Comparison) -> str:
    if gap.verdict == CANNOT_TELL:
        return "unclear"
    return "good" if (gap.verdict == LOWER) == (summary.evidence.sign > 0) else "bad"



def _words(summary: Summary, recipe: str, other: str) -> str:
    """`alpha -0.2 against alpha 0: -10.2 points [-17, -4], p = 0.01, clear`."""
    gap = summary.evidence.against(recipe, other)
    sure = "" if gap.p is None else f", {p_words(gap.p)}"
    return f"{recipe} against {other}: {gap_words(summary, gap)}{sure}, {_told(gap)}"



def _told(gap: Comparison) -> str:
    return "cannot be told from chance" if gap.verdict == CANNOT_TELL else "clear"



def _triangle(summary: Summary, evidence: Evidence, everyone: Sequence[str]) -> Markup:
    """All recipes from least leak to most: a square where the row leaks clearly more than the column."""
    spec, many = spec_of(summary.primary), len(everyone)
    left = 60 + max(text_width(recipe, 11.5) for recipe in everyone)
    clear = np.array([[_is_clear(evidence, a, b) for b in everyone] for a in everyone])
    squares, dots = [], []
    for row in range(many):
        for column in range(row):
            x, y = left + column * CELL, 20 + row * CELL
            if clear[row, column]:
                squares.append(f"M{x + 1:g} {y + 1:g}h{CELL - 2:g}v{CELL - 2:g}h{2 - CELL:g}z")
            else:
                dots.append(f"M{x + CELL / 2 - 1:g} {y + CELL / 2 - 1:g}h2v2h-2z")
    names = [
        tag(
            "g",
            tag("title", _standing(evidence, recipe, clear[place])),
            label(left - 8, 20 + place * CELL + 10, f"{recipe}  {number(spec, evidence.mean(recipe))}", "tiny", "end"),
            class_="pt",
        )
        for place, recipe in enumerate(everyone)
    ]
    paths = [tag("path", d="".join(squares), class_="told"), tag("path", d="".join(dots), class_="untold")]
    drawn = figure(left + many * CELL + 10, 30 + many * CELL, "Which recipes leak clearly more than which others",
                   *names, *paths)  # fmt: skip
    caption = (
        "From least leak to most, columns in the order of the rows. A square: the row leaks clearly more than the "
        "column's recipe; a dot: the two cannot be told apart. Hover over a name for its count."
    )
    return tag("figure", drawn, tag("figcaption", caption))



def _is_clear(evidence: Evidence, a: str, b: str) -> bool:
    return a != b and evidence.against(a, b).verdict != CANNOT_TELL



def _standing(evidence: Evidence, recipe: str, clear: np.ndarray) -> str:
    told, many = int(clear.sum()), len(evidence.compared) - 1
    return f"{recipe}: told apart from {told} of the {many} others"
