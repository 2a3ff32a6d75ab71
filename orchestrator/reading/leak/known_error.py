"""The leak corrected for the deciding judge's errors: misses on photographs and hits on controls."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.known_error import Corrected, Rate, corrected_leak
from smoothsweep.orchestrator.reading.numbers.format import estimate, number, start
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary


@dataclass(frozen=True, kw_only=True)
class KnownError:
    """How often a judge is known to be wrong.

    Attributes:
        sensitivity: Share of real test images that the judge gets right.
        false_positives: Share of its hits on the control that has most of them, counted as one image per person and
            seed, which is fewer than there were.
        leaks: Recipe -> its corrected leak under its worst attack, None where the judge tells too little.
        control: The control's name.
    """

    sensitivity: Rate
    false_positives: Rate
    control: str
    leaks: dict[str, Corrected | None]


def known_error(data: ReportData, summary: Summary) -> KnownError | None:
    """The judge's errors and the corrected leaks; None without a control or real images, or for another metric than a
    hit rate."""
    metric = summary.primary
    if metric not in CLASS_METRICS or data.real_images is None or not data.judged_classes:
        return None
    control, ceiling = summary.worst_of_control(metric), metric_of(metric).ceiling
    if control is None or ceiling not in summary.measured:
        return None
    name, row = control
    right, wrong = summary.frame[ceiling].mean(), summary.frame.loc[row, metric]
    sensitivity = Rate(share=float(right), trials=data.real_images)
    false_positives = Rate(share=float(wrong), trials=data.judged_classes * int(summary.frame.loc[row, f"{metric}_n"]))
    leaks = {
        recipe: _corrected(summary, at, sensitivity, false_positives) for recipe, at in summary.rows(metric).items()
    }
    return KnownError(sensitivity=sensitivity, false_positives=false_positives, control=name, leaks=leaks)


def _corrected(summary: Summary, row: int, sensitivity: Rate, false_positives: Rate) -> Corrected | None:
    leak = summary.estimate(row, summary.deciding)
    interval = None if pd.isna(leak.low) or pd.isna(leak.high) else (float(leak.low), float(leak.high))
    return corrected_leak(
        float(leak.mean),
        interval,
        sensitivity=sensitivity,
        false_positives=false_positives,
        level=summary.settings.level,
    )


def known_error_lead(summary: Summary, error: KnownError) -> str:
    """Sentences on the judge's errors and on the correction for them."""
    spec = summary.spec
    return start(
        f"the {spec.label} matches {number(spec, error.sensitivity.share)} of photographs with the right person, and "
        f"{number(spec, error.false_positives.share)} of what {error.control} draws without knowing the model. Without "
        "that error the leaks would be these; a photograph is easier to match than a reconstruction, so they are "
        "rather too low."
    )


def corrected_words(summary: Summary, leak: Corrected | None) -> str:
    """A corrected leak as text, such as `42 % [30, 55]`, or that the judge is too unreliable to correct for."""
    if leak is None:
        return "not known: this judge distinguishes people hardly better than chance"
    return estimate(summary.spec, leak.value, leak.low, leak.high)
