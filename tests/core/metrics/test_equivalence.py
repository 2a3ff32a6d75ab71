import math

import numpy as np
import pytest
from scipy import stats

from smoothsweep.core.metrics.equivalence import ACCURACY_MARGIN, is_kept


@pytest.mark.parametrize(
    ("low", "high", "margin", "kept"),
    [
        (-0.009, 0.004, 0.01, True),
        (-0.01, 0.004, 0.01, False),
        (-0.016, 0.005, 0.01, False),
        (-0.016, 0.005, 0.02, True),
        (0.002, 0.01, 0.01, True),
        (-0.03, -0.02, 0.01, False),
        (0.0, 0.0, 0.01, False),
        (None, None, 0.01, False),
        (math.nan, math.nan, 0.01, False),
    ],
)
def test_only_an_interval_that_lies_above_the_margin_shows_that_nothing_is_lost(low, high, margin, kept):
    assert is_kept(low, high, margin) is kept


def test_a_loss_of_just_the_margin_is_seldom_taken_for_none():
    """Of a true loss of one point, as often as a one-sided test at 2.5 % errs."""
    draws = np.random.default_rng(4).normal(-ACCURACY_MARGIN, 0.005, (4000, 4))
    half = stats.t.ppf(0.975, 3) * draws.std(axis=1, ddof=1) / 2
    kept = [is_kept(mean - wide, mean + wide) for mean, wide in zip(draws.mean(axis=1), half, strict=True)]
    assert np.mean(kept) == pytest.approx(0.025, abs=0.007)


@pytest.mark.parametrize("margin", [0.0, -0.01, math.nan])
def test_a_margin_that_is_none_is_refused(margin):
    with pytest.raises(ValueError, match="margin: expected a number above 0"):
        is_kept(-0.001, 0.001, margin)
