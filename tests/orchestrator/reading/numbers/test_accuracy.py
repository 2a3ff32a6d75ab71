"""A difference in accuracy is no loss only where its whole interval lies above minus the margin."""

import pytest

from smoothsweep.orchestrator.reading.numbers.estimates import NOTHING, Comparison
from smoothsweep.orchestrator.reading.numbers.wording import accuracy_kept


def gap(low, high, difference=-0.004):
    return Comparison(difference=difference, low=low, high=high, n=3, verdict="inconclusive", p=0.4)


@pytest.mark.parametrize(
    ("low", "high", "margin", "kept"),
    [
        (-0.009, 0.02, 0.01, True),
        (-0.011, 0.02, 0.01, False),
        (0.02, 0.04, 0.01, True),
        (-0.05, -0.02, 0.01, False),
        (-0.05, -0.02, 0.06, True),
        (float("nan"), float("nan"), 0.5, False),
    ],
)
def test_the_lower_end_decides(low, high, margin, kept):
    assert accuracy_kept(gap(low, high), margin) is kept


def test_nothing_compared_keeps_nothing():
    assert accuracy_kept(NOTHING, 1.0) is False
