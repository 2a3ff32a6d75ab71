from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.fid import feature_statistics, fid, frechet_distance, merge_statistics

GOLDEN = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "fidelity.npz").items()
    if name.startswith("fid_")
}
A, B, C = GOLDEN["fid_features_a"], GOLDEN["fid_features_b"], GOLDEN["fid_features_c_rank_deficient"]


def rows(n, d, seed, shift=0.0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift


def test_statistics_equal_the_official_ones():
    ours = feature_statistics(A)
    np.testing.assert_allclose(ours.mean, GOLDEN["fid_mu_a"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.covariance, GOLDEN["fid_sigma_a"], rtol=0, atol=1e-12)


def test_distances_equal_the_official_ones():
    ours = [fid(A, B), fid(A, A), fid(A, C)]
    np.testing.assert_allclose(ours, GOLDEN["fid_values_ab_aa_ac"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours, GOLDEN["fid_eigenvalue_route_ab_aa_ac"], rtol=0, atol=1e-6)


def test_digits_survive_a_singular_covariance():
    """Beside the golden values: both routes there lose some, and here the factor of C is known exactly."""
    a, c = feature_statistics(A), feature_statistics(C)
    factor = (C - C.mean(0)).T / 3
    values, vectors = torch.linalg.eigh(a.covariance)
    root = torch.linalg.svdvals((vectors * values.sqrt()).T @ factor).sum()
    exact = (a.mean - c.mean).square().sum() + a.covariance.trace() + c.covariance.trace() - 2 * root
    assert fid(A, C) == pytest.approx(exact.item(), rel=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    offset=st.sampled_from([0.0, 1e4]),
    half=st.booleans(),
)
def test_statistics_do_not_depend_on_the_cutting(seed, cuts, offset, half):
    features = rows(60, 5, seed, offset)
    features = features.float() if half else features
    bounds = [0, *sorted(cuts), 60]
    parts = [features[a:b] for a, b in pairwise(bounds)]
    streamed = feature_statistics(iter(parts))
    sharded = feature_statistics(parts[-1]) if len(parts[-1]) else None
    for part in reversed(parts[:-1]):  # shards of any sizes, merged in any order
        if len(part):
            own = feature_statistics(part)
            sharded = own if sharded is None else merge_statistics(own, sharded)
    expected = np.cov(features.double().numpy(), rowvar=False)
    for ours in (streamed, sharded, feature_statistics(features)):
        assert ours.n == 60
        np.testing.assert_allclose(ours.mean, features.double().mean(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ours.covariance, expected, rtol=1e-9, atol=1e-9 * (1 + offset) ** 0.5)


def test_known_values():
    eye, zero = torch.eye(3), torch.zeros(3)
    assert frechet_distance(zero, eye, torch.tensor([3.0, 4.0, 0.0]), eye) == pytest.approx(25)
    assert frechet_distance(zero, 4 * eye, zero, 9 * eye) == pytest.approx(3 * (3 - 2) ** 2)
    assert frechet_distance(zero, 0 * eye, zero, 9 * eye) == pytest.approx(27)  # a point
    swapped = [torch.diag(torch.tensor(d)) for d in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])]  # no common direction
    assert frechet_distance(zero, swapped[0], zero, swapped[1]) == pytest.approx(2)
    assert frechet_distance(zero, 0 * eye, zero, 0 * eye) == 0


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), n=st.integers(2, 30), m=st.integers(2, 30), d=st.integers(1, 12))
def test_a_distance_whatever_the_rank(seed, n, m, d):
    a, b = rows(n, d, seed), 3 * rows(m, d, seed + 1, 0.5)
    value = fid(a, b)
    assert value == pytest.approx(fid(b, a), rel=1e-9)
    assert fid(a, a) <= 1e-7
    assert value >= (a.mean(0) - b.mean(0)).square().sum().item() - 1e-9
    turn = torch.linalg.qr(rows(d, d, seed + 2)).Q
    assert fid(a @ turn, b @ turn) == pytest.approx(value, rel=1e-6, abs=1e-6)
    product = feature_statistics(a).covariance @ feature_statistics(b).covariance
    root = torch.linalg.eigvals(product).real.clamp(min=0).sqrt().sum().item()
    stats = [feature_statistics(x) for x in (a, b)]
    textbook = (stats[0].mean - stats[1].mean).square().sum().item() - 2 * root
    textbook += sum(s.covariance.trace().item() for s in stats)
    assert value == pytest.approx(textbook, rel=1e-4, abs=1e-4)  # the textbook route loses digits at rank below d


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_images_are_refused(n):
    with pytest.raises(InputError, match="expected at least"):
        fid(A, A[:n])


def test_bad_features_are_refused():
    with pytest.raises(ValueError, match="got NaN or infinity"):
        feature_statistics(A * torch.inf)
    with pytest.raises(ValueError, match=r"expected \[N, D\], got \(16,\)"):
        feature_statistics(A[0])
    with pytest.raises(ValueError, match="expected 16 numbers in every part, got 4"):
        feature_statistics([A, A[:, :4]])
    eye, zero = torch.eye(3), torch.zeros(3)
    with pytest.raises(ValueError, match="expected a covariance, got one with eigenvalue -1"):
        frechet_distance(zero, eye, zero, -eye)
    with pytest.raises(ValueError, match="got NaN or infinity"):
        frechet_distance(zero, eye * torch.nan, zero, eye)
    with pytest.raises(ValueError, match=r"got \(3,\), \(2, 2\)"):
        frechet_distance(zero, eye, zero, eye[:2, :2])
