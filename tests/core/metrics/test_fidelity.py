"""FID, KID and precision, recall, density and coverage: official numbers, definitions pair by pair, refusals."""

import itertools
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics import fidelity as module
from smoothsweep.core.metrics.fidelity import (
    DEFINITIONS,
    feature_statistics,
    fid,
    frechet_distance,
    kid,
    merge_statistics,
    prdc,
    prdc_per_class,
    squared_mmd,
)

GOLDEN = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "fidelity.npz").items()
}
A, B, C = GOLDEN["fid_features_a"], GOLDEN["fid_features_b"], GOLDEN["fid_features_c_rank_deficient"]


def rows(n, d=6, seed=0, shift=0.0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift


def test_statistics_equal_the_official_ones():
    ours = feature_statistics(A)
    np.testing.assert_allclose(ours.mean, GOLDEN["fid_mu_a"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.covariance, GOLDEN["fid_sigma_a"], rtol=0, atol=1e-12)


def test_distances_equal_the_official_ones():
    ours = [fid(A, B), fid(A, A), fid(A, C)]
    np.testing.assert_allclose(ours, GOLDEN["fid_values_ab_aa_ac"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours, GOLDEN["fid_eigenvalue_route_ab_aa_ac"], rtol=0, atol=1e-6)


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
    eye, zero = torch.eye(3), torch.zeros(3)
    with pytest.raises(ValueError, match="expected a covariance, got one with eigenvalue -1"):
        frechet_distance(zero, eye, zero, -eye)


def mmd_by_definition(a, b):
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
def test_kid_equals_the_definition(seed, n, m, d):
    a, b = rows(n, d, seed), rows(m, d, seed + 1, 0.3)
    assert squared_mmd(a, b) == pytest.approx(mmd_by_definition(a, b), rel=1e-9, abs=1e-9)
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
        values.append(mmd_by_definition(first, second))
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


def test_bad_input_of_kid_is_refused():
    with pytest.raises(InputError, match="at least 2 images on both sides, got 40 and 1"):
        kid(rows(40), rows(1), seed=0)
    with pytest.raises(InputError, match="subset_size >= 2, got 100 and 1"):
        kid(rows(4), rows(4), seed=0, subset_size=1)
    with pytest.raises(ValueError, match="NaN or infinity"):
        squared_mmd(rows(4), rows(4) * torch.nan)


SETS = tuple(GOLDEN[f"prdc_{name}"] for name in ("real", "real_targets", "fake", "fake_targets"))
REAL, _, FAKE, _ = SETS


def table(measures):
    return [measures.precision, measures.recall, measures.density, measures.coverage]


@pytest.mark.parametrize("k", [3, 5])
def test_prdc_equals_the_official_measures(k):
    """The official code averages in float32."""
    ours = prdc_per_class(*SETS, definition="official", k=k)
    assert ours.classes.tolist() == [0, 1, 2] and ours.excluded == ()
    np.testing.assert_allclose(ours.values, GOLDEN[f"prdc_per_class_k{k}"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(table(ours.mean), GOLDEN[f"prdc_class_mean_k{k}"], rtol=0, atol=2e-7)
    pooled = prdc(REAL, FAKE, definition="official", k=k)
    np.testing.assert_allclose(table(pooled), GOLDEN[f"prdc_pooled_k{k}"], rtol=0, atol=2e-7)
    # What the released script logs where its targets are the word `all`: the pooled sets and classes 1 and 2, averaged.
    released = np.mean([table(pooled), *np.asarray(ours.values)[1:]], axis=0)
    np.testing.assert_allclose(released, GOLDEN[f"prdc_as_released_3classes_k{k}"], rtol=0, atol=2e-7)


@pytest.mark.parametrize("k", [3, 5])
def test_prdc_equals_the_standard_measures(k):
    ours = prdc_per_class(*SETS, definition="standard", k=k)
    np.testing.assert_allclose(ours.values, GOLDEN[f"prdc_standard_definition_per_class_k{k}"], rtol=0, atol=1e-12)


def balls_by_definition(real, fake, k, definition):
    """Balls and their contents, spelled out."""
    radius = {}
    for name, own in (("real", real), ("fake", fake)):
        between = (own[:, None] - own[None]).norm(dim=2)
        radius[name] = between.sort(dim=1).values[:, k]
    between = (fake[:, None] - real[None]).norm(dim=2)
    slack = 1e-7
    inside_real = between <= radius["real"] + slack
    inside_fake = between <= radius["fake"][:, None] + slack
    if definition == "standard":
        precision, recall = inside_real.any(1), inside_fake.any(0)
    else:
        precision = inside_real[torch.arange(len(fake)), between.argmin(1)]
        recall = inside_fake[between.argmin(0), torch.arange(len(real))]
    count = len(real) if definition == "official" else len(fake)
    density = inside_real.sum().item() / (k * count)
    means = [x.double().mean().item() for x in (precision, recall, inside_real.any(0))]
    return [means[0], means[1], density, means[2]]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    n=st.integers(6, 25),
    m=st.integers(6, 25),
    k=st.integers(1, 5),
    chunk=st.integers(1, 200),
    definition=st.sampled_from(DEFINITIONS),
)
def test_chunks_and_large_offsets_change_nothing(seed, n, m, k, chunk, definition):
    real, fake = rows(n, 3, seed), 1.3 * rows(m, 3, seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ELEMENTS", chunk)
        ours = table(prdc(real + 1000, fake + 1000, definition=definition, k=k))
    np.testing.assert_allclose(ours, balls_by_definition(real, fake, k, definition), rtol=0, atol=1e-12)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_copies_lie_on_the_surface_of_balls_and_count(definition):
    real = rows(30, 40, 0) + 50
    ours = prdc(real, real.clone(), definition=definition, k=3)
    assert (ours.precision, ours.recall, ours.coverage) == (1, 1, 1)
    assert ours.density == pytest.approx((30 * 4 + sum_of_extra_ties(real, 3)) / (3 * 30))
    same = torch.ones(8, 4)  # all radii are 0
    assert table(prdc(same, same, definition=definition, k=3)) == pytest.approx([1, 1, 8 / 3, 1])


def sum_of_extra_ties(real, k):
    between = (real[:, None] - real[None]).norm(dim=2).sort(dim=1).values
    return int(((between - between[:, k : k + 1]).abs() < 1e-9).sum()) - len(real)


def test_small_classes_are_left_out_and_named():
    real, labels_real, fake, labels_fake = SETS
    few = torch.cat([fake[labels_fake == 0][:3], fake[labels_fake == 1]])
    few_labels = torch.cat([torch.zeros(3), torch.ones(30)]).long()
    ours = prdc_per_class(real, labels_real, few, few_labels, definition="official")
    assert ours.excluded == (0,) and ours.classes.tolist() == [1]
    np.testing.assert_allclose(table(ours.mean), GOLDEN["prdc_per_class_k3"][1], rtol=0, atol=2e-7)
    with pytest.raises(InputError, match="classes with at least 41 real and fake images, got none"):
        prdc_per_class(*SETS, definition="official", k=40)


def test_bad_input_of_prdc_is_refused():
    with pytest.raises(InputError, match="expected one of official, standard, got 'usual'"):
        prdc(REAL, FAKE, definition="usual")
    with pytest.raises(InputError, match="k: expected at least 1, got 0"):
        prdc_per_class(*SETS, definition="official", k=0)
    with pytest.raises(InputError, match="at least 4 real and fake images, got 98 and 3"):
        prdc(REAL, FAKE[:3], definition="standard")
