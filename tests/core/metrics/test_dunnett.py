"""Quantiles of the largest of several t-variables: printed tables, one variable, and a simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.metrics.dunnett import Bonferroni, Dunnett

PRINTED = {  # two-sided 5 %, correlation 1/2: Dunnett (1964), Biometrics 20, 482-491, table 2
    (2, 5): 3.03,
    (2, 10): 2.57,
    (2, 20): 2.38,
    (2, 60): 2.27,
    (3, 10): 2.76,
    (3, 20): 2.54,
    (5, 20): 2.73,
    (9, 20): 2.95,
}


@pytest.mark.parametrize(("at", "printed"), PRINTED.items())
def test_quantiles_are_those_of_the_printed_table(at, printed):
    comparisons, freedom = at
    assert float(Dunnett(comparisons=comparisons).quantiles(freedom, 0.05)) == pytest.approx(printed, abs=0.006)


def test_a_simulation_agrees():
    rng, comparisons, freedom = np.random.default_rng(3), 7, 5
    normals = rng.normal(size=(400_000, comparisons)) + rng.normal(size=(400_000, 1))
    drawn = np.abs(normals / np.sqrt(2) / np.sqrt(rng.chisquare(freedom, size=(400_000, 1)) / freedom)).max(axis=1)
    for alpha in (0.2, 0.05, 0.01):
        quantile = float(Dunnett(comparisons=comparisons).quantiles(freedom, alpha))
        assert (drawn > quantile).mean() == pytest.approx(alpha, abs=4 * np.sqrt(alpha / 400_000))


@given(
    comparisons=st.integers(2, 60), freedom=st.floats(1, 300), alpha=st.floats(1e-6, 0.5), other=st.floats(1e-6, 0.5)
)
def test_it_lies_between_one_comparison_and_bonferroni(comparisons, freedom, alpha, other):
    found = float(Dunnett(comparisons=comparisons).quantiles(freedom, alpha))
    alone, bound = (float(Bonferroni(comparisons=n).quantiles(freedom, alpha)) for n in (1, comparisons))
    assert alone <= found * 1.003 and found <= bound * 1.003
    rarer = float(Dunnett(comparisons=comparisons).quantiles(freedom, min(alpha, other)))
    assert rarer >= found
