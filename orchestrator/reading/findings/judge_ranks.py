"""Compare how judges, and how attacks, rank the recipes: ranks, and the agreement between rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.rank_agreement import LEAST_FOR_INTERVAL, RankAgreement, rank_agreement
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.reading.findings.pairs import SIDE, chosen_recipes
from smoothsweep.orchestrator.reading.findings.tables import KEY_METRICS
from smoothsweep.orchestrator.reading.numbers.format import listing, number
from smoothsweep.orchestrator.reading.numbers.summary import Summary

BEST = 3
"""Number of recipes that count as the best."""

FEWEST = 3
"""Fewest shared recipes for comparing two rankings."""


def judging_metrics(summary: Summary) -> list[str]:
    """One measured leak metric per judge, the deciding one first."""
    known = [spec.key for spec in METRICS if spec.group == "leak" and spec.better and spec.key in summary.measured]
    judges = [key for key in known if key in (*CLASS_METRICS, *KEY_METRICS, summary.primary)]
    return sorted(judges, key=lambda key: key != summary.primary)


def ranks_alike(summary: Summary, first: Sequence[float], other: Sequence[float]) -> RankAgreement:
    """The agreement of two rankings. one, other: leaks of the same recipes in the same order."""
    return rank_agreement(first, other, k=min(BEST, len(first)), **asdict(summary.settings))


def agreement(
    summary: Summary, first: Mapping[str, float], other: Mapping[str, float]
) -> tuple[RankAgreement, int] | None:
    """The agreement of two rankings by recipe name, and the number of shared recipes; None with too few of them."""
    shared = [recipe for recipe in first if recipe in other]
    if len(shared) < FEWEST:
        return None
    return ranks_alike(summary, *([side[recipe] for recipe in shared] for side in (first, other))), len(shared)


def judge_agreement(summary: Summary) -> list[str]:
    """A sentence for every other judge on whether it ranks the recipes as the deciding judge does."""
    if summary.primary not in summary.measured:
        return []
    first = f"The {summary.spec.label} and "
    others = {
        f"{first}{'the ' if metric in CLASS_METRICS else ''}{metric_of(metric).label}": summary.leaks(metric)
        for metric in judging_metrics(summary)[1:]
    }
    return _sentences(summary, summary.leaks(summary.primary), others)


def attack_agreement(summary: Summary) -> list[str]:
    """A sentence for every other attack on whether it ranks the recipes like the first, by the deciding judge."""
    if summary.primary not in summary.measured or len(summary.attacks) < 2:
        return []
    leaks = {attack: summary.leaks(summary.primary, attack) for attack in summary.attacks}
    first, *others = summary.attacks
    sides = {f"The attacks with {first} and with {attack}": leaks[attack] for attack in others}
    return _sentences(summary, leaks[first], sides)


def _sentences(summary: Summary, first: Mapping[str, float], others: Mapping[str, Mapping[str, float]]) -> list[str]:
    agreements = {sides: agreement(summary, first, other) for sides, other in others.items()}
    return [_sentence(sides, *pair) for sides, pair in agreements.items() if pair is not None]


def _sentence(sides: str, ranks: RankAgreement, many: int) -> str:
    """A sentence such as `... rank the 40 recipes alike: Kendall's tau 0.62 [0.4, 0.8].`"""
    if ranks.kendall.value != ranks.kendall.value:
        return f"{sides} cannot be compared: one of the two finds all recipes equal."
    verdict = {
        "agree": f"rank the {many} recipes alike",
        "disagree": f"rank the {many} recipes in opposite orders",
        "inconclusive": f"rank the {many} recipes in orders whose agreement is inconclusive",
    }[ranks.verdict]
    few = "" if ranks.kendall.low is not None else f", too few recipes for an interval (below {LEAST_FOR_INTERVAL})"
    best = f"; of the {ranks.k} that leak least they share {100 * ranks.top_overlap:.0f}{NBSP}%" if many > BEST else ""
    return f"{sides} {verdict}: {tau_words(ranks)}{few}{best}."


def tau_words(ranks: RankAgreement) -> str:
    """The agreement as text, such as `Kendall's tau 0.62 [0.40, 0.80]`; without interval where none is known."""
    value, low, high = (
        end if end is None else minus(f"{end:.2f}")
        for end in (ranks.kendall.value, ranks.kendall.low, ranks.kendall.high)
    )
    return f"Kendall's tau {value}" + ("" if low is None else f" [{low}, {high}]")


def place(value: float, all_values: Sequence[float]) -> int:
    """The rank of a value among all values, 1 for the smallest."""
    return 1 + sum(other < value for other in all_values)


def lead(summary: Summary) -> str:
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


def listed(summary: Summary) -> list[str]:
    """The recipes whose ranks are shown."""
    return chosen_recipes(summary) if summary.compared.pairs else list(summary.compared.rows)[:SIDE]
