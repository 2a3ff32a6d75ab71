"""Findings of sweeps that compare settings of an attack: each setting against the baseline's, in words and as a table.

Such a sweep (the paper's Tables 5 to 7 and 10) runs no two recipes under the same attacks, so it cannot rank recipes by
their strongest attack. Instead every setting is compared with the baseline's, paired by seed and class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.reading.findings.display import VerdictText, setting_name
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison
from smoothsweep.orchestrator.reading.numbers.evidence import COLUMNS
from smoothsweep.orchestrator.reading.numbers.format import aligned, ascii_text, count, named, start
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import hits_in_words, row_reduction

WORDS = {REDUCES: "finds less", LEAKS_MORE: "finds more", INCONCLUSIVE: INCONCLUSIVE}
"""Verdict on a recipe -> verdict on a setting, which may belong to the attacker."""

LEGEND = "reduction: leak under the baseline's setting minus that under this one; positive finds less"
"""Explanation of the sign, for the foot of a table."""


def of_setting(spec: Metric, cell: Mapping[str, Any]) -> VerdictText | None:
    """Word the comparison of a row with the baseline's by a leak; None for the baseline and without a comparison."""
    gap = Comparison(**{name: cell[f"{spec.key}{end}"] for end, name in COLUMNS.items()})
    size, word = row_reduction(spec, gap)
    look = "unclear" if word == INCONCLUSIVE else ""
    return None if word is None else VerdictText(words=WORDS[word], look=look, size=size)


def setting_answer(summary: Summary) -> tuple[str, ...]:
    """Sentences on the baseline's leak, the settings that differ significantly, and the inconclusive ones."""
    spec, cells = summary.spec, summary.cells
    [baseline] = [row for row, cell in cells.items() if cell["is_baseline"]]
    readings = {row: reading for row, cell in cells.items() if (reading := of_setting(spec, cell))}
    unit = " points" if spec.unit == "percent" else ""
    clear = [
        f"{named(setting_name(summary, cells[row]))} {reading.words}: {summary.value_text(row)}, "
        f"reduction {reading.size}{unit}"
        for row, reading in readings.items()
        if reading.words != INCONCLUSIVE
    ]
    unclear = sum(reading.words == INCONCLUSIVE for reading in readings.values())
    first = (
        f"This sweep compares settings with {named(setting_name(summary, cells[baseline]))}: "
        f"{summary.value_text(baseline)}{hits_in_words(spec, summary.people)}"
    )
    if not clear:
        return (f"{first}. No other is distinguishable from it.",)
    verb = "is" if unclear == 1 else "are"
    rest = (f"{start(count(unclear, 'setting'))} {verb} inconclusive.",) if unclear else ()
    return f"{first}. {start('; '.join(clear))}.", *rest


def settings_text(summary: Summary) -> str:
    """The settings as a table for a terminal."""
    spec = summary.spec
    rows = [[spec.label, "n", "reduction", "verdict", "setting"]]
    for row, cell in summary.cells.items():
        reading = of_setting(spec, cell)
        size, word = (
            ("", "baseline" if cell["is_baseline"] else "") if reading is None else (reading.size, reading.words)
        )
        rows.append([summary.value_text(row), str(cell["n"]), size, word, setting_name(summary, cell)])
    return "\n".join([*aligned([[ascii_text(cell) for cell in row] for row in rows], {3, 4}), LEGEND])
