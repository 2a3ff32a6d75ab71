"""A difference as a table tells it: in words, coloured by what they mean for the owner of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from core.metrics.verdicts import CANNOT_TELL, LOWER
from orchestrator.reading.numbers.estimates import Comparison
from orchestrator.reading.numbers.format import points, signed, signed_interval
from orchestrator.reading.numbers.metrics import MetricSpec


@dataclass(frozen=True, kw_only=True)
class Told:
    """words: `26.1 points lower`, or that n is too small. look: good or bad for the owner, unclear, or neither ("").
    size: the interval of the difference, and the difference where the words do not say it."""

    words: str
    look: Literal["good", "bad", "unclear", ""]
    size: str


def told(spec: MetricSpec, gap: Comparison) -> Told | None:
    """None where there is nothing to compare."""
    if not gap.verdict:
        return None
    ends = signed_interval(spec, gap.low, gap.high)
    if gap.verdict == CANNOT_TELL:
        words = "no difference" if gap.low == gap.high == 0 else "n too small to tell"
        return Told(words=words, look="unclear", size=f"{signed(spec, gap.difference)} {ends}".strip())
    defended = (gap.verdict == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else "good" if defended else "bad"
    return Told(words=f"{points(spec, gap.difference)} {gap.verdict}", look=look, size=ends)


def of_cell(spec: MetricSpec, cell: pd.Series) -> Told | None:
    """The same for a cell of the summary's frame against its baseline."""
    ends = (cell[f"{spec.key}_diff{end}"] for end in ("", "_low", "_high", "_n"))
    difference, low, high, n = ends
    return told(spec, Comparison(difference=difference, low=low, high=high, n=n, verdict=cell[f"{spec.key}_verdict"]))
