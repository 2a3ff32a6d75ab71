import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.kid import kid, squared_mmd


def rows(n, d=6, seed=0, shift=0.0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift


def by_definition(a, b):
    """Sums over pairs, one at a time."""

    def kernel(x, y):
        return (sum(p * q for p, q in zip(x, y, strict=True)) / len(x) + 1) ** 3

    a, b = a.tolist(), b.tolist()
    within = 0.0
    for part in (a, b):
        pairs = [kernel(x, y) for x, y in itertools.permutations(part, 2)]
        within += sum(pairs) / len(pairs)
    between = [kernel(x, y) for x in a for y in b]
    return within - 2 * sum(between) / len(between)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 999), n=st.integers(2, 9), m=st.integers(2, 9), d=st.integers(1, 5))
def test_equals_the_definition(seed, n, m, d):
    a, b = rows(n, d, seed), rows(m, d, seed + 1, 0.3)
    assert squared_mmd(a, b) == pytest.approx(by_definition(a, b), rel=1e-9, abs=1e-9)
    assert squared_mmd(a, b) == pytest.approx(squared_mmd(b, a), abs=1e-12)


def test_a_value_worked_out_by_hand():
    """D = 1: k(x, y) = (xy + 1)^3, so k(0, 1) = 1, k(1, 2) = 27, k(0, 2) = 1, k(1, 1) = 8."""
    a, b = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [2.0]])
    assert squared_mmd(a, b) == pytest.approx(1 + 27 - 2 * (1 + 1 + 8 + 27) / 4)


def test_subsets_use_equally_many_rows_of_both_and_average():
    a, b = rows(40), rows(30, seed=1, shift=0.5)
    result = kid(a, b, seed=3, subsets=20, subset_size=12)
    assert (result.subsets, result.subset_size) == (20, 12)
    generator, values = torch.Generator().manual_seed(3), []
    for _ in range(20):
        first, second = (x[torch.randperm(len(x), generator=generator)[:12]] for x in (a, b))
        values.append(by_definition(first, second))
    assert result.mean == pytest.approx(sum(values) / 20, rel=1e-9)
    variance = sum((v - result.mean) ** 2 for v in values) / 20
    assert result.std == pytest.approx(variance**0.5, rel=1e-9)


def test_defaults_are_the_usual_ones_and_small_sets_shrink_the_subsets():
    a, b = rows(40), rows(30, seed=1)
    result = kid(a, b, seed=0)
    assert (result.subsets, result.subset_size) == (100, 30)
    only = kid(b, rows(30, seed=2), seed=0)
    assert (only.subsets, only.subset_size, only.std) == (1, 30, None)
    assert only.mean == squared_mmd(b, rows(30, seed=2))
    assert kid(a, b, seed=0, subsets=1).std is None
    large = kid(rows(1100, d=2), rows(1001, d=2, seed=1), seed=0, subsets=2)
    assert large.subset_size == 1000


def test_only_the_seed_decides():
    a, b = rows(40), rows(40, seed=1)
    first = kid(a, b, seed=5, subsets=5, subset_size=10)
    torch.rand(3)
    assert kid(a.float().double(), b, seed=5, subsets=5, subset_size=10).mean == pytest.approx(first.mean, abs=1e-5)
    assert kid(a, b, seed=5, subsets=5, subset_size=10) == first
    assert kid(a, b, seed=6, subsets=5, subset_size=10) != first


def test_no_bias_for_equal_distributions_and_growth_with_the_distance():
    same = [squared_mmd(rows(20, seed=s), rows(20, seed=500 + s)) for s in range(200)]
    mean, std = torch.tensor(same).mean().item(), torch.tensor(same).std().item()
    assert abs(mean) < 4 * std / len(same) ** 0.5
    assert min(same) < 0 < max(same)
    apart = [squared_mmd(rows(50), rows(50, seed=1, shift=shift)) for shift in (0.5, 1.0, 2.0)]
    assert apart == sorted(apart) and apart[0] > 0


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="at least 2 images on both sides, got 40 and 1"):
        kid(rows(40), rows(1), seed=0)
    with pytest.raises(InputError, match="subset_size >= 2, got 100 and 1"):
        kid(rows(4), rows(4), seed=0, subset_size=1)
    with pytest.raises(InputError, match="subsets >= 1"):
        kid(rows(4), rows(4), seed=0, subsets=0)
    with pytest.raises(ValueError, match=r"got \(4, 6\) and \(4, 5\)"):
        kid(rows(4), rows(4, d=5), seed=0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        squared_mmd(rows(4), rows(4) * torch.nan)
