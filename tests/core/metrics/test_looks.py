"""Group-sequential designs and quantiles of the largest of several t: constants as printed, and simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.looks import Looks, leaving, settled
from smoothsweep.core.metrics.verdicts import Bonferroni, Dunnett


def evenly(count):
    return tuple(range(2, 2 * count + 1, 2))


@pytest.mark.parametrize(
    ("count", "error"), [(1, 0.05), (2, 0.0294), (3, 0.0221), (4, 0.0182), (5, 0.0158), (10, 0.0106)]
)
def test_errors_are_those_that_pocock_printed(count, error):
    found = Looks(seeds=evenly(count)).errors
    assert found == pytest.approx([error] * count, abs=5e-5)


@pytest.mark.parametrize(
    ("count", "bounds"), [(2, (2.797, 1.977)), (3, (3.471, 2.454, 2.004)), (5, (4.562, 3.226, 2.634, 2.281, 2.040))]
)
def test_bounds_are_those_that_o_brien_and_fleming_printed(count, bounds):
    found = [-special.ndtri(error / 2) for error in Looks(seeds=evenly(count), spend="obrien-fleming").errors]
    assert found == pytest.approx(bounds, abs=2e-3)


@pytest.mark.parametrize("spend", ["pocock", "obrien-fleming"])
@pytest.mark.parametrize("seeds", [(3, 5, 8), (2, 10), (2, 3, 20, 21)])
def test_a_simulated_walk_leaves_as_often_as_asked(seeds, spend):
    rng, draws = np.random.default_rng(3), 200_000
    sums = np.cumsum(rng.normal(size=(draws, seeds[-1])), axis=1)
    walk = np.stack([sums[:, many - 1] / np.sqrt(many) for many in seeds], axis=1)
    bounds = -special.ndtri(np.array(Looks(seeds=seeds, alpha=0.1, spend=spend).errors) / 2)
    left = (np.abs(walk) > bounds).any(axis=1).mean()
    assert abs(left - 0.1) < 4 * np.sqrt(0.09 / draws)


@settings(deadline=None, max_examples=30)
@given(
    steps=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    alpha=st.floats(0.001, 0.5),
    spend=st.sampled_from(["pocock", "obrien-fleming"]),
)
def test_all_looks_together_spend_alpha_and_no_more_than_each_alone_would(steps, alpha, spend):
    seeds = tuple((1 + np.cumsum(steps)).tolist())
    errors = np.array(Looks(seeds=seeds, alpha=alpha, spend=spend).errors)
    assert errors.max() <= alpha * (1 + 1e-6) and errors.sum() >= alpha * (1 - 1e-6)
    assert leaving(-special.ndtri(errors / 2), np.array(seeds) / seeds[-1]) == pytest.approx(alpha, rel=1e-4)
    assert (np.diff(errors) >= -1e-12).all()  # O'Brien and Fleming begin with the least


def test_what_is_settled():
    ends = np.array([[0.01, 0.3], [-0.4, -0.01], [-0.05, 0.04], [-0.06, 0.01], [-0.2, 0.2], [0.0, 0.3]])
    found = [settled(low, high, smallest=0.05).item() for low, high in ends]
    assert found == [True, True, True, False, False, False]
    assert not settled(-0.001, 0.001, smallest=None)
    assert settled(*ends.T, smallest=0.05).tolist() == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seeds": (1, 3)}, "at least 2 seeds at the first look, got [1, 3]"),
        ({"seeds": ()}, "at least 2 seeds at the first look, got []"),
        ({"seeds": (3, 3)}, "increasing numbers of seeds, got [3, 3]"),
        ({"seeds": (5, 3)}, "increasing numbers of seeds, got [5, 3]"),
        ({"seeds": (3, 5), "alpha": 0.0}, "between 0 and 1, got 0.0"),
        ({"seeds": (3, 5), "alpha": 1.0}, "between 0 and 1, got 1.0"),
        ({"seeds": (3, 5), "spend": "all"}, "one of pocock, obrien-fleming, got 'all'"),
    ],
)
def test_what_is_no_design_is_refused(given, said):
    with pytest.raises(InputError) as refusal:
        Looks(**given)
    assert said in str(refusal.value)


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
