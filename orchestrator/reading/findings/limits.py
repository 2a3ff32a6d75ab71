"""What a sweep does not know: said on the first screen, beside what it found."""

from __future__ import annotations

from orchestrator.reading.numbers.format import count, listing
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary


def limits(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """What stands behind every number of the page, and what no number of it can say."""
    seeds = count(data.results["seed"].nunique(), "seed")
    classes = f" and {count(data.judged_classes, 'class', 'classes')}" if data.judged_classes else ""
    tried = [attack for attack in summary.attacks if attack]
    attacks = f"the attacks tried ({listing(tried)})" if 1 < len(tried) <= 3 else (
        f"the {len(tried)} attacks tried" if tried[1:] else "the one attack tried")  # fmt: skip
    return (
        f"Everything here rests on {seeds}{classes} and on {attacks}: a stronger attack may find more, and a recipe "
        "that leaks little may only hide what it holds.",
    )
