"""Seeds that came later: the looks at which recipes were decided, and the second audit under fresh seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.comparisons import Reaudit, reaudit, together
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE
from smoothsweep.orchestrator.result.cells import Stop
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import MANY, reduction_cell
from smoothsweep.orchestrator.result.estimates import rates
from smoothsweep.orchestrator.result.format import (
    count,
    difference,
    listing,
    named,
    number,
    points,
    start,
)
from smoothsweep.orchestrator.result.summary import Summary, decide, summarise

SPENT = {"pocock": "Pocock", "obrien-fleming": "O'Brien and Fleming"}


def look_words(summary: Summary, stop: Stop) -> str:
    """A phrase such as `decided at look 1 of 3 (3 seeds)`."""
    looks = present(summary.looks, "looks")
    where = f"look {stop.look} of {len(looks.looks)} ({count(stop.comparison.seeds, 'seed')})"
    if stop.answer == "small":
        return f"smaller than {points(summary.spec, looks.smallest)} either way at {where}"
    return {"told": f"decided at {where}", "open": f"open after {where}", "undecided": f"undecided after {where}"}[
        stop.answer
    ]


def look_sentences(summary: Summary) -> tuple[str, ...]:
    """Sentences on the looks, one per recipe, and on recipes that could not be tested; empty without looks."""
    if summary.looks is None or summary.primary is None:
        return ()
    looks, last = summary.looks, summary.stops(summary.primary)
    shares = [f"{100 * error:.2g}\u00a0%" for error in looks.design.errors]
    errors = shares[0] if len(set(shares)) == 1 else f"{listing(shares)}, one after the other"
    first = (
        f"Every recipe was compared with the baseline at {looks.looks[0]} seeds, those still undecided again at "
        f"{listing(map(str, looks.looks[1:]))}, each time with an error of {errors} "
        f"({100 * looks.alpha:g}\u00a0% in all, {SPENT[looks.spend]}). These intervals hold although seeds were added."
        if len(looks.looks) > 1
        else f"There is one look, at {looks.looks[0]} seeds."
    )
    lines = [first, *(start(f"{named(recipe)}: {_stop_sentence(summary, stop)}.") for recipe, stop in last.items())]
    missing = [recipe for recipe in summary.recipes if recipe not in last and recipe != summary.baseline_recipe]
    if missing:
        lines.append(f"Not asked yet, since seeds of the first look are missing: {listing(map(named, missing))}.")
    return tuple(lines)


def _stop_sentence(summary: Summary, stop: Stop) -> str:
    return f"{look_words(summary, stop)}, reduction {reduction_cell(summary.spec, stop.comparison)}"


Leaks = dict[str, np.ndarray]
"""Attack -> leak [seeds, classes]; a larger value is a larger leak."""


@dataclass(frozen=True, kw_only=True)
class ReauditSummary:
    """The comparison of the first audit with the fresh one.

    Attributes:
        recipes: Recipe -> its first against its fresh leak, in the metric's unit, under its strongest attack. Intervals
            are simultaneous and account for the choice of the attack.
        together: The average over all recipes.
        seeds: The fresh seeds.
        by_class: Whether the audits were paired by class.
    """

    recipes: dict[str, Reaudit]
    together: Reaudit
    seeds: tuple[int, ...]
    by_class: bool


@lru_cache(maxsize=2)
def check_reaudit(data: ReportData, summary: Summary) -> ReauditSummary | None:
    """Compare the recipes audited again; None without any finished second audit."""
    if data.fresh is None or not len(data.fresh) or summary.evidence is None:
        return None
    again = summarise(
        replace(data, results=data.fresh, fresh=None, search=None, paper=None), **asdict(summary.settings)
    )
    pairs = _pairs(summary, again, summary.deciding) if summary.deciding in again.measured else {}
    if not pairs:
        return None
    level = summary.settings.level
    recipes = {recipe: reaudit(*pair, among=len(pairs), level=level) for recipe, pair in pairs.items()}
    average, turn = together(list(recipes.values())), summary.spec.sign < 0
    return ReauditSummary(
        recipes={recipe: audit.turned if turn else audit for recipe, audit in recipes.items()},
        together=average.turned if turn else average,
        seeds=again.cases(summary.deciding).seeds,
        by_class=all(cells.shape[1] > 1 for sides in pairs.values() for side in sides for cells in side.values()),
    )


def fresh_words(summary: Summary, check: ReauditSummary) -> list[str]:
    """Sentences of the second audit on the chosen recipe and on the whole frontier."""
    spec, best, lines = summary.spec, summary.compared.recommendation.best, []
    if best in check.recipes:
        audit = check.recipes[best]
        lines.append(
            f"{start(named(best))} leaks {number(spec, audit.fresh)} with fresh seeds, {number(spec, audit.selected)} "
            f"when it was chosen: {difference(spec, audit.bias, audit.low, audit.high)}, {meaning(summary, audit)}."
        )
    if len(check.recipes) > 1:
        audit, many = check.together, count(len(check.recipes), "recipe")
        bias_text = difference(spec, audit.bias, audit.low, audit.high)
        lines.append(f"Over the {many} checked, selection bias is {bias_text} on average, {meaning(summary, audit)}.")
    return lines


def fresh_answer(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """One sentence on the second audit for the head of the page; empty where the choice was not audited again."""
    check = check_reaudit(data, summary)
    if check is None or summary.compared.recommendation.best not in check.recipes:
        return ()
    return (f"Checked again: {fresh_words(summary, check)[0]}",)


def meaning(summary: Summary, audit: Reaudit) -> str:
    if audit.low is None:
        return "inconclusive: one seed says nothing of chance"
    if audit.verdict == INCONCLUSIVE:
        return "inconclusive: no more than chance explains"
    was_low = (audit.verdict == HIGHER) == (summary.compared.sign > 0)
    return f"the first audit {'underestimated' if was_low else 'overestimated'} the leak"


def _pairs(summary: Summary, again: Summary, metric: str) -> dict[str, tuple[Leaks, Leaks]]:
    """Recipe -> its leaks in the first and in the fresh audit, under the attacks that both ran."""
    audits = (summary, again)
    first, fresh = (audit.cases(metric) for audit in audits)
    attacks = [attack for attack in first.attacks if attack in fresh.attacks]
    recipes = [recipe for recipe in first.recipes if recipe in fresh.recipes]
    return {recipe: _leaks(audits, metric, recipe, attacks) for recipe in recipes if attacks}


def _leaks(audits: tuple[Summary, Summary], metric: str, recipe: str, attacks: Sequence[str]) -> tuple[Leaks, Leaks]:
    """The leaks of a recipe in both audits, by attack, over the classes that both have; see `rates`."""
    seeds = [audit.cases(metric).seeds for audit in audits]
    samples = [
        audit.samples[audit.rows(metric, attack)[recipe]][metric][seed]
        for audit, mine in zip(audits, seeds, strict=True)
        for attack in attacks
        for seed in mine
    ]
    values = metric_of(metric).sign * rates(samples)[0]
    parts = np.split(values, [len(attacks) * len(seeds[0])])
    first, fresh = (
        dict(zip(attacks, part.reshape(len(attacks), len(mine), -1), strict=True))
        for part, mine in zip(parts, seeds, strict=True)
    )
    return first, fresh


def frontier_words(summary: Summary) -> str:
    """The sentences below the figure: the recipes on the frontier; empty without one."""
    front = decide(summary).front
    if not front:
        return ""
    rest = [count(len(front) - MANY, "other")] if len(front) > MANY else []
    names = listing([*map(named, front[:MANY]), *rest])
    floor = "" if summary.min_test_acc is None else number(metric_of("test_acc"), summary.min_test_acc)
    accuracy_note = f" Only recipes with the {floor} asked for count." if floor else ""
    return (
        f"The line is the frontier: {names}; no other recipe beats {'it' if len(front) == 1 else 'these'} in both."
        f"{accuracy_note} Bars are intervals (without an end: the bar leaves the panel). Hover over a point for its "
        "numbers; select it for its row of the table."
    )
