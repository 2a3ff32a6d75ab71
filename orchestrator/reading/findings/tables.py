"""The table of results as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.reading.findings.display import cell_verdict
from smoothsweep.orchestrator.reading.findings.incomplete import incomplete_lines
from smoothsweep.orchestrator.reading.numbers.decision import Decision, decide
from smoothsweep.orchestrator.reading.numbers.format import aligned, ascii_text, axis_value, interval, number
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import LEGEND

INTEGRITY = ("robust_acc", "backdoor_success", "backdoor_collapsed", "membership_auc")
KNOWLEDGE = "xi_train"
"""The knowledge-extraction metric that tables show: that of the training split, as in the paper's tables."""
KEY_METRICS = ("test_acc", "embedder_acc1", "attack_acc1", KNOWLEDGE, "dist_face", *INTEGRITY)
"""The metrics of the first table; the rest follow in the table of everything measured."""


def text_table(summary: Summary) -> str:
    """The cells of a sweep as a table for a terminal, one line each.

    Columns: axes (or the recipe), n, accuracy, judges, and with a single attack the reduction and the verdict, which
    have a table of their own otherwise. `*` marks the recipe with the smallest leak (never with one seed), `=` the
    baseline,     `<` recipes below `min_test_acc`.
    """
    keys = [key for key in shown_metrics(summary) if key in ("test_acc", summary.primary, *CLASS_METRICS, *INTEGRITY)]
    axes = [axis.name for axis in summary.axes] or ["recipe"]
    head = ["", *axes, "n", *(summary.metric(key).label for key in keys)]
    choice, rows = decide(summary), []
    by_row = summary.primary is not None and (len(summary.attacks) == 1 or len(summary.recipes) == 1)
    for index, cell in summary.cells.items():
        mark = "".join(sign for sign, holds in _marks(choice, index, cell).items() if holds)
        values = [axis_value(axis, cell[axis.key]) for axis in summary.axes] or [cell["recipe"]]
        rows.append([mark, *values, seeds(cell), *(with_interval(metric_of(key), cell) for key in keys)])
        if by_row:
            rows[-1] += _versus(summary, cell)
    head += ["reduction", "verdict", "n needed"] if by_row else []
    plain = [[ascii_text(cell) for cell in row] for row in (head, *rows)]
    lines = aligned(plain, {*range(len(axes) + 1), *((len(head) - 2, len(head) - 1) if by_row else ())})
    rule = "-" * max(map(len, lines))
    level = f"{100 * summary.settings.level:g} %"
    alone = "; with n = 1 it is over classes alone, or missing, and says nothing of the recipe"
    is_alone = any(seeds(cell) == "1" for cell in summary.cells.values())
    occurring = {sign for row in rows for sign in row[0]}
    signs = [f"{sign} {words}" for sign, words in _legend(summary, choice).items() if sign in occurring]
    legend = "   ".join([*signs, f"[low, high] {level} interval{alone if is_alone else ''}"])
    missing = map(ascii_text, incomplete_lines(summary))
    sign = [LEGEND] if by_row else []
    return "\n".join([lines[0], rule, *lines[1:], rule, legend, *sign, *missing])


def _marks(choice: Decision, index: int, cell: Mapping[str, Any]) -> dict[str, bool]:
    """Sign -> whether the row has it."""
    return {"*": index == choice.marked, "=": bool(cell["is_baseline"]), "<": cell["recipe"] in choice.below}


def _legend(summary: Summary, choice: Decision) -> dict[str, str]:
    """Sign -> its explanation."""
    return {"*": choice.mark, "=": "baseline", "<": ascii_text(too_inaccurate(summary))}


def too_inaccurate(summary: Summary) -> str:
    """The phrase for a recipe below `min_test_acc`; empty where none is set."""
    floor = summary.min_test_acc
    return "" if floor is None else f"test accuracy below {number(metric_of('test_acc'), floor)}"


def shown_metrics(summary: Summary) -> list[str]:
    """The metrics of the first table: the measured key metrics, and the one that decides."""
    keys = [key for key in KEY_METRICS if key in summary.measured]
    if summary.primary and summary.primary not in keys:
        keys.insert(1 if keys[:1] == ["test_acc"] else 0, summary.primary)
    return keys


def seeds(cell: Mapping[str, Any]) -> str:
    """The seeds of a row as text: `2`, or `2 of 3` where trials failed or are missing."""
    planned = cell["n"] + cell["failed"] + cell["missing"]
    return str(cell["n"]) if planned == cell["n"] else f"{cell['n']} of {planned}"


def with_interval(spec: Metric, cell: Mapping[str, Any]) -> str:
    """A metric of a row as text, such as `47.2 % [34, 60]`; without interval where none is known."""
    return f"{number(spec, cell[spec.key])} {interval(spec, cell[f'{spec.key}_low'], cell[f'{spec.key}_high'])}".strip()


def _versus(summary: Summary, cell: Mapping[str, Any]) -> tuple[str, str, str]:
    if cell["is_baseline"]:
        return "", "baseline", ""
    verdict = cell_verdict(summary, summary.spec, cell)
    return ("", "", "") if verdict is None else (verdict.size, verdict.words, verdict.needed)
