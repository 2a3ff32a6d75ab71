"""Word a difference in test accuracy: no loss where the interval shows it, else only the interval."""

from __future__ import annotations

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.equivalence import is_kept
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison
from smoothsweep.orchestrator.reading.numbers.format import difference, points

SPEC = metric_of("test_acc")


def accuracy_kept(gap: Comparison, margin: float) -> bool:
    """Whether the whole interval of the difference lies above minus the margin."""
    return gap.n > 0 and is_kept(gap.low, gap.high, margin)


def accuracy_gap(gap: Comparison) -> str:
    """A difference as text, such as `-0.6 points [-1.6, +0.5]`."""
    return difference(SPEC, gap.difference, gap.low, gap.high)


def margin_words(margin: float) -> str:
    """A margin as text, such as `1.0 point`."""
    return points(SPEC, margin)
