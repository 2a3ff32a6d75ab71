"""Compare the order of defenses by leak with the paper's Tables 1 and 3; the scales differ, so only orders count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import SMOOTHING, family_of, known_defenses
from smoothsweep.core.defenses.strengths import setting_text
from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.defenses.families import DefenseGroup, Point
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.published import NAMES
from smoothsweep.sweeps.paper_numbers import PaperNumber, datasets_of, printed_rows

PAPER_TABLES = ("1", "3")


@dataclass(frozen=True, kw_only=True)
class Order:
    """Arms by their leak, least first.

    Attributes:
        title: Where the order comes from.
        chosen: Arm -> the strength that stands for it.
        clear: Pairs of arms of which one leaks more; None where the source gives no interval.
    """

    title: str
    arms: tuple[str, ...]
    chosen: Mapping[str, str]
    clear: frozenset[frozenset[str]] | None = field(default=None)


def paper_orders() -> tuple[Order, ...]:
    """The orders by Acc@1 in Tables 1 and 3, one for each data set; an arm stands at its least leaking strength."""
    orders = []
    for table in PAPER_TABLES:
        for dataset in datasets_of(table):
            best: dict[str, PaperNumber] = {}
            for row in printed_rows(table, dataset):
                number, arm = row.numbers.get("attack_acc1"), _paper_arm(row.first)
                if number is not None and arm and (arm not in best or number.value < best[arm].value):
                    best[arm] = number
            ordered = tuple(sorted(best, key=lambda arm: best[arm].value))
            chosen = {arm: _paper_strength(number) for arm, number in best.items()}
            orders.append(Order(title=f"Table {table}, {NAMES.get(dataset, dataset)}", arms=ordered, chosen=chosen))
    return tuple(orders)


def our_order(summary: Summary, group: DefenseGroup, metric: str) -> Order | None:
    """The order of the paper's arms in this sweep by one judge; None with fewer than two measured arms.

    Combinations of defenses, and arms that the paper lacks, are left out.
    """
    if metric not in summary.measured:
        return None
    leaks = summary.leaks(metric)
    measured = sorted((p for p in group.points if p.recipe in leaks), key=lambda point: leaks[point.recipe])
    best = {arm: point for point in reversed(measured) if (arm := _arm(point)) is not None}
    if len(best) < 2:
        return None
    clear = {
        frozenset((first, other))
        for first, other in combinations(best, 2)
        if (gap := summary.reduction(metric, best[first].recipe, best[other].recipe)) is not None and gap.is_clear
    }
    return Order(
        title=metric_of(metric).label,
        arms=tuple(arm for point in measured if (arm := _arm(point)) is not None and best.get(arm) is point),
        chosen={arm: "" if point.words.plain else point.words.strength for arm, point in best.items()},
        clear=frozenset(clear),
    )


def our_orders(summary: Summary, group: DefenseGroup) -> list[Order]:
    """The orders in this sweep by each judge; empty where only plain training was measured."""
    orders = [order for metric in CLASS_METRICS if (order := our_order(summary, group, metric)) is not None]
    return orders if any(set(order.arms) - {"none"} for order in orders) else []


def shared_arms(ours: Sequence[Order]) -> list[str]:
    """The arms that occur in at least one of these orders."""
    return [arm for arm in arm_words() if any(arm in order.arms for order in ours)]


def agreement(ours: Order, theirs: Order) -> tuple[int, int, int, int]:
    """Count the pairs of arms that both orders have.

    Returns: all pairs, pairs in the same order, pairs whose difference is significant here, and how many of the latter
    are in the same order.
    """
    shared = [arm for arm in ours.arms if arm in theirs.arms]
    pairs = list(combinations(shared, 2))  # in our order: least leak first
    alike = {pair for pair in pairs if theirs.arms.index(pair[0]) < theirs.arms.index(pair[1])}
    clear = {pair for pair in pairs if frozenset(pair) in (ours.clear or ())}
    return len(pairs), len(alike), len(clear), len(alike & clear)


def _paper_arm(first: PaperNumber) -> str | None:
    if first.defense == SMOOTHING:
        return "negative" if present(first.alpha, "alpha") < 0 else "positive"
    return first.defense if first.defense in arm_words() else None


def _paper_strength(number: PaperNumber) -> str:
    family = None if number.defense == SMOOTHING else family_of(number.defense)
    if family is None:
        return setting_text("alpha", number.alpha) if number.defense == SMOOTHING else ""
    printed = {name: getattr(number, name) for name in ("beta", "lambda_input", "lambda_label")}
    strength = family.read({name: value for name, value in printed.items() if value is not None}).value
    return f"{family.parameter}{NBSP}{strength}" if family.parameter else strength


@cache
def arm_words() -> dict[str, str]:
    """Arm -> its label, for plain training, smoothing, and the defenses of the paper's tables."""
    rows = (row for table in PAPER_TABLES for dataset in datasets_of(table) for row in printed_rows(table, dataset))
    printed = {row.first.defense for row in rows} - {SMOOTHING}
    compared = {kind: family_of(kind) for kind in known_defenses() if kind in printed}
    return {
        "none": "No defense",
        "negative": f"Smoothing below{NBSP}0",
        "positive": f"Smoothing above{NBSP}0",
        **{kind: family.name for kind, family in compared.items() if family is not None},
    }


def _arm(point: Point) -> str | None:
    """The arm of a recipe; None for one that the paper did not try."""
    words = point.words
    if words.plain:
        return "none"
    if words.family == SMOOTHING and words.order is not None and not words.arm:
        return "negative" if words.order[0] < 0 else "positive"
    return words.family if words.family in arm_words() and not words.arm else None
