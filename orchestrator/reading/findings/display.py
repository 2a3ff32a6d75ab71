"""What figures and tables show of many recipes, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, LOWER
from smoothsweep.orchestrator.reading.numbers.cells import hashable
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison
from smoothsweep.orchestrator.reading.numbers.evidence import COLUMNS
from smoothsweep.orchestrator.reading.numbers.format import (
    axis_words,
    count,
    estimate,
    is_null,
    points,
    signed,
    signed_interval,
)
from smoothsweep.orchestrator.reading.numbers.summary import UNCHANGED, Summary
from smoothsweep.orchestrator.reading.numbers.wording import (
    WORDING,
    Look,
    needed_words,
    reduction_cell,
    row_reduction,
    settling,
)

NOTHING_LESS = 1e-9
"""A difference of means that is less than this, with its interval, is none: it comes from the rounding of sums."""

MANY = 12
"""With more recipes than this, figures name or show only the baseline and the recipes on the front."""


LONG = 34
"""Letters of a recipe's name from which a figure writes it in two lines."""


def is_crowded(summary: Summary) -> bool:
    """Whether the names of all recipes would fill more than `MANY` lines of a figure, so that not all are written."""
    return sum(1 + (len(recipe) > LONG) for recipe in summary.recipes) > MANY


def judges_shown(summary: Summary) -> list[str]:
    """The leak metrics that get a panel: the hit rates that were measured and the metric that decides."""
    judges = [key for key in CLASS_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in judges:
        judges.insert(0, summary.primary)
    return judges


def shown_rows(summary: Summary) -> list[int]:
    """The rows of the frame that get a line of their own in a figure."""
    rows = [int(index) for index in summary.frame.index]
    if len(summary.recipes) <= MANY:
        return rows
    front = decide(summary).front
    chosen = [row for row in rows if summary.frame.loc[row, "is_baseline"] or summary.frame.loc[row, "recipe"] in front]
    return chosen or rows[:MANY]


def setting_name(summary: Summary, cell: Mapping[str, Any]) -> str:
    """`selection target alpha 0.1`: in what a row differs from the baseline's row, which alone has its full name."""
    baseline = next(one for one in summary.cells.values() if one["is_baseline"])
    differing = [
        axis_words(axis, cell[axis.key])
        for axis in summary.axes
        if not is_null(cell[axis.key]) and hashable(cell[axis.key]) != hashable(baseline[axis.key])
    ]
    attack = "" if cell["attack"] == UNCHANGED else cell["attack"]
    return ", ".join(differing or [part for part in (cell["recipe"], attack) if part])


def hover(values: Mapping[str, Any], judge: str) -> str:
    """A point's recipe, accuracy and leak, in the words that appear above it."""
    name = values["recipe"] + (f", {values['attack']}" if values["attack"] else "")
    pieces = [name]
    for key in ("test_acc", judge):
        spec = metric_of(key)
        text = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {text} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """A comparison in a cell of a table. words: the verdict, empty where the cell asks another question; size: what it
    rests on: the reduction of a leak, or the interval of another metric's difference; needed: what might settle it;
    settling: the same as a sentence; look: good or bad for the owner, unclear, or neither (""); meaning: the words
    explained, for a tooltip."""

    words: str
    look: Look
    size: str
    needed: str = ""
    settling: str = ""
    meaning: str = ""


def told(spec: Metric, one: LeakComparison | None) -> VerdictText | None:
    """A recipe beside a reference by a leak; None where the two were not compared."""
    if one is None:
        return None
    wording = WORDING[one.word]
    return VerdictText(
        words=one.word,
        look=wording.look,
        size=reduction_cell(spec, one),
        needed=needed_words(one),
        settling=settling(one),
        meaning=wording.meaning,
    )


def told_difference(spec: Metric, gap: Comparison) -> VerdictText | None:
    """By a metric that is no leak: `1.2 points lower`, or `the same`; None where there is nothing to compare."""
    if not gap.verdict:
        return None
    ends = signed_interval(spec, gap.low, gap.high)
    if gap.verdict == INCONCLUSIVE:
        if max(abs(gap.difference), abs(gap.low), abs(gap.high)) < NOTHING_LESS:
            return VerdictText(words="", look="", size="the same")
        return VerdictText(words=INCONCLUSIVE, look="unclear", size=f"{signed(spec, gap.difference)} {ends}".strip())
    defended = (gap.verdict == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else "good" if defended else "bad"
    return VerdictText(words=f"{points(spec, gap.difference)} {gap.verdict}", look=look, size=ends)


def of_cell(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """A row of the summary's frame beside its baseline. The word of a leak is that of its recipe; where several attacks
    were tried, a row shows its own reduction alone, and the table of recipes has the word."""
    gap = Comparison(**{name: cell[f"{spec.key}{end}"] for end, name in COLUMNS.items()})
    if not spec.is_leak:
        return told_difference(spec, gap)
    if len(summary.attacks) == 1 and not cell["control"]:
        one = summary.verdict(cell["recipe"], spec.key)
        if one is not None:
            return told(spec, one)
    size, word = row_reduction(spec, gap)
    if word is None:
        return None
    if cell["reference_recipe"] != cell["recipe"]:
        return VerdictText(words="", look="", size=size)
    return VerdictText(words=word, look=WORDING[word].look, size=size)


def of_recipe(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """The recipe of a row beside the baseline, for a table of recipes."""
    return told(spec, summary.verdict(cell["recipe"], spec.key)) if spec.is_leak else of_cell(summary, spec, cell)
