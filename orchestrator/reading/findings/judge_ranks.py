"""Do the judges, and do the attacks, rank the recipes alike? Places side by side, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.metrics.rank_agreement import LEAST_FOR_INTERVAL, RankAgreement, rank_agreement
from core.metrics.table import CLASS_METRICS, METRICS, metric_of
from core.words import NBSP, minus
from orchestrator.reading.findings.pairs import SIDE, chosen_recipes
from orchestrator.reading.findings.tables import KEY_METRICS
from orchestrator.reading.numbers.evidence import worst_rows
from orchestrator.reading.numbers.format import listing, number
from orchestrator.reading.numbers.summary import Summary

BEST = 3
FEWEST = 3
"""Recipes that make an order worth comparing."""


def judging_metrics(summary: Summary) -> list[str]:
    """Measured leaks that stand for a judge of their own, the deciding one first."""
    known = [spec.key for spec in METRICS if spec.group == "leak" and spec.better and spec.key in summary.measured]
    judges = [key for key in known if key in (*CLASS_METRICS, *KEY_METRICS, summary.primary)]
    return sorted(judges, key=lambda key: key != summary.primary)


def signed_leaks(summary: Summary, metric: str, attack: str | None = None) -> dict[str, float]:
    """Recipe -> leak, small is good: under one attack, or (None) the worst for it."""
    frame, sign = summary.frame, metric_of(metric).sign
    if attack is None:
        rows: Mapping[str, int] = worst_rows(frame, metric)
    else:
        chosen = frame[(frame["attack"] == attack) & frame[metric].notna()]
        rows = {recipe: int(index) for index, recipe in chosen["recipe"].items()}
    return {recipe: sign * float(frame.loc[row, metric]) for recipe, row in rows.items()}


def agreement(
    summary: Summary, one: Mapping[str, float], other: Mapping[str, float]
) -> tuple[RankAgreement, int] | None:
    """How alike two orders of the recipes are, and of how many recipes; None with too few in common."""
    shared = [recipe for recipe in one if recipe in other]
    if len(shared) < FEWEST:
        return None
    settings = summary.settings
    first, second = ([side[recipe] for recipe in shared] for side in (one, other))
    found = rank_agreement(first, second, k=min(BEST, len(shared)), level=settings.level,
                           resamples=settings.resamples, seed=settings.seed)  # fmt: skip
    return found, len(shared)


def judge_agreement(summary: Summary) -> list[str]:
    """A sentence for every other judge: does it rank the recipes as the deciding one does?"""
    if summary.primary is None or summary.primary not in summary.measured:
        return []
    deciding = signed_leaks(summary, summary.primary)
    told = []
    for metric in judging_metrics(summary)[1:]:
        found = agreement(summary, deciding, signed_leaks(summary, metric))
        if found is not None:
            sides = f"The {metric_of(summary.primary).label} and {_the(metric)}"
            told.append(_sentence(sides, *found))
    return told


def attack_agreement(summary: Summary) -> list[str]:
    """The same for the attacks, by the deciding judge."""
    if summary.primary is None or summary.primary not in summary.measured or len(summary.attacks) < 2:
        return []
    first, *others = summary.attacks
    mine = signed_leaks(summary, summary.primary, first)
    told = []
    for attack in others:
        found = agreement(summary, mine, signed_leaks(summary, summary.primary, attack))
        if found is not None:
            told.append(_sentence(f"The attacks with {first} and with {attack}", *found))
    return told


def _sentence(sides: str, found: RankAgreement, many: int) -> str:
    """`... rank the 40 recipes alike: Kendall's tau 0.62 [0.4, 0.8].`"""
    tau = found.kendall
    if tau.value != tau.value:
        return f"{sides} cannot be compared: one of the two finds all recipes equal."
    ends = "" if tau.low is None else f" [{_number(tau.low)}, {_number(tau.high)}]"
    verdict = {
        "agree": f"rank the {many} recipes alike",
        "disagree": f"rank the {many} recipes in opposite orders",
        "cannot tell": f"rank the {many} recipes in orders that cannot be told from unrelated ones",
    }[found.verdict]
    few = f", too few recipes for an interval (below {LEAST_FOR_INTERVAL})" if tau.low is None else ""
    best = f"; of the {found.k} that leak least they share {100 * found.top_overlap:.0f}{NBSP}%" if many > BEST else ""
    return f"{sides} {verdict}: Kendall's tau {_number(tau.value)}{ends}{few}{best}."


def _the(metric: str) -> str:
    label = metric_of(metric).label
    return f"the {label}" if metric in CLASS_METRICS else label


def _number(value: float) -> str:
    return minus(f"{value:.2f}")


def place(value: float, all_values: Sequence[float]) -> int:
    return 1 + sum(other < value for other in all_values)


def lead(summary: Summary) -> str:
    """Why two judges, and what each reaches on real images."""
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


def listed(summary: Summary) -> list[str]:
    """The recipes whose places are shown."""
    return chosen_recipes(summary) if summary.evidence.pairs else list(summary.evidence.rows)[:SIDE]
