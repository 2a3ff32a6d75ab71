"""Choose the recipes that figures and tables show, and word their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
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
    listing,
    number,
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
"""Smaller differences of means, with their intervals, count as 0: they come from rounding."""

MANY = 12
"""Recipes up to which figures name and show all; with more, only the baseline and the recipes on the front."""


SIDE = 12
"""The most recipes that get a column of pictures."""

LONG = 34
"""Number of letters from which a figure writes a recipe's name in two lines."""


def is_crowded(summary: Summary) -> bool:
    """Whether the names of all recipes need more than `MANY` lines in a figure, so that some are not written."""
    return sum(1 + (len(recipe) > LONG) for recipe in summary.recipes) > MANY


def judges_shown(summary: Summary) -> list[str]:
    """The leak metrics that get a panel: the measured hit rates and the metric that decides."""
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
    """The settings of a row that differ from the baseline's, such as `selection target alpha 0.1`.

    The baseline's row has its full name.
    """
    baseline = next(cell for cell in summary.cells.values() if cell["is_baseline"])
    differing = [
        axis_words(axis, cell[axis.key])
        for axis in summary.axes
        if not is_null(cell[axis.key]) and hashable(cell[axis.key]) != hashable(baseline[axis.key])
    ]
    attack = "" if cell["attack"] == UNCHANGED else cell["attack"]
    return ", ".join(differing or [part for part in (cell["recipe"], attack) if part])


def hover(values: Mapping[str, Any], judge: str) -> str:
    """The tooltip of a point: its recipe, accuracy and leak."""
    name = values["recipe"] + (f", {values['attack']}" if values["attack"] else "")
    pieces = [name]
    for key in ("test_acc", judge):
        spec = metric_of(key)
        text = estimate(spec, values[key], values[f"{key}_low"], values[f"{key}_high"])
        pieces.append(f"{spec.label}: {text} (n = {count(int(values[f'{key}_n']), 'seed')})")
    return "\n".join(pieces)


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """A comparison as a cell of a table shows it.

    Attributes:
        words: The verdict; empty where the cell holds no verdict.
        size: The reduction of the leak, or the interval of another metric's difference.
        needed: How many seeds might settle an inconclusive comparison.
        settling: `needed` as a sentence.
        look: Colour: "good" or "bad" for the owner, "unclear", or "" for none.
        meaning: Explanation of the verdict for a tooltip.
    """

    words: str
    look: Look
    size: str
    needed: str = ""
    settling: str = ""
    meaning: str = ""


def leak_verdict(spec: Metric, comparison: LeakComparison | None) -> VerdictText | None:
    """Word the comparison of a recipe with its reference by a leak; None where the two were not compared."""
    if comparison is None:
        return None
    wording = WORDING[comparison.word]
    return VerdictText(
        words=comparison.word,
        look=wording.look,
        size=reduction_cell(spec, comparison),
        needed=needed_words(comparison),
        settling=settling(comparison),
        meaning=wording.meaning,
    )


def difference_verdict(spec: Metric, gap: Comparison) -> VerdictText | None:
    """Word a difference of a metric that is no leak, such as `1.2 points lower`; None without a comparison."""
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


def cell_verdict(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """Word the comparison of a row of the summary's frame with its baseline; None without a comparison.

    The verdict on a leak belongs to a recipe. Where several attacks were tried, a row shows only its own reduction.
    """
    gap = Comparison(**{name: cell[f"{spec.key}{end}"] for end, name in COLUMNS.items()})
    if not spec.is_leak:
        return difference_verdict(spec, gap)
    if len(summary.attacks) == 1 and not cell["control"]:
        verdict = summary.verdict(cell["recipe"], spec.key)
        if verdict is not None:
            return leak_verdict(spec, verdict)
    size, word = row_reduction(spec, gap)
    if word is None:
        return None
    if cell["reference_recipe"] != cell["recipe"]:
        return VerdictText(words="", look="", size=size)
    return VerdictText(words=word, look=WORDING[word].look, size=size)


def recipe_verdict(summary: Summary, spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """Word the comparison of a row's recipe with the baseline, for a table of recipes; None without one."""
    return (
        leak_verdict(spec, summary.verdict(cell["recipe"], spec.key))
        if spec.is_leak
        else cell_verdict(summary, spec, cell)
    )


def judges_lead(summary: Summary) -> str:
    """Sentences on why there are several judges, and on their hit rates on real images."""
    ceilings = [
        f"the {judge.label} names {number(metric_of(judge.ceiling), summary.frame[judge.ceiling].mean())}"
        for judge in METRICS
        if judge.ceiling in summary.measured and judge.key in summary.measured
    ]
    limit = f" Of real images of these classes, {listing(ceilings)} correctly." if ceilings else ""
    return (
        "The evaluator was trained on the same private images as the target and may accept what only classifiers "
        f"accept; the independent judge's features come from other people. The gap is itself a finding.{limit}"
    )


def chosen_recipes(summary: Summary) -> list[str]:
    """The chosen recipe, its runners-up, the frontier and the baseline, by rising leak; at most `SIDE` recipes."""
    ranked, choice = (
        sorted(summary.compared.compared, key=lambda recipe: summary.spec.sign * summary.compared.mean(recipe)),
        summary.compared.recommendation,
    )
    if len(ranked) <= SIDE:
        return ranked
    first = {choice.best, summary.baseline_recipe}
    wanted = first | {*choice.runners_up, *decide(summary).front}
    chosen = sorted((recipe for recipe in ranked if recipe in wanted), key=lambda recipe: recipe not in first)[:SIDE]
    return [recipe for recipe in ranked if recipe in chosen]


def sheet_recipes(summary: Summary) -> list[str]:
    """The recipes that get a column of pictures: all where they are few, else those that a decision is about."""
    if len(summary.recipes) <= SIDE or summary.evidence is None:
        return summary.recipes
    return chosen_recipes(summary) if summary.evidence.pairs else summary.recipes[:SIDE]
