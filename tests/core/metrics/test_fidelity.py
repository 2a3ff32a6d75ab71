"""FID, KID and precision, recall, density and coverage: official numbers, definitions pair by pair, refusals."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics import fidelity as module
from smoothsweep.core.metrics.accuracy import class_means
from smoothsweep.core.metrics.fidelity import (
    fid,
    frechet_distance,
    kid,
    knn_distance,
    nearest_real,
    prdc_per_class,
)
from tests.lowres import golden

GOLDEN = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "fidelity.npz").items()
}
A, B, C = GOLDEN["fid_features_a"], GOLDEN["fid_features_b"], GOLDEN["fid_features_c_rank_deficient"]


def rows(n, d=6, seed=0, shift=0.0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + shift


def test_distances_equal_the_official_ones():
    ours = [fid(A, B), fid(A, A), fid(A, C)]
    np.testing.assert_allclose(ours, GOLDEN["fid_values_ab_aa_ac"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours, GOLDEN["fid_eigenvalue_route_ab_aa_ac"], rtol=0, atol=1e-6)


def test_known_values():
    eye, zero = torch.eye(3), torch.zeros(3)
    assert frechet_distance(zero, eye, torch.tensor([3.0, 4.0, 0.0]), eye) == pytest.approx(25)
    assert frechet_distance(zero, 4 * eye, zero, 9 * eye) == pytest.approx(3 * (3 - 2) ** 2)
    assert frechet_distance(zero, 0 * eye, zero, 9 * eye) == pytest.approx(27)  # a point
    swapped = [torch.diag(torch.tensor(d)) for d in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])]  # no common direction
    assert frechet_distance(zero, swapped[0], zero, swapped[1]) == pytest.approx(2)
    assert frechet_distance(zero, 0 * eye, zero, 0 * eye) == 0


@given(seed=st.integers(0, 999), n=st.integers(2, 30), m=st.integers(2, 30), d=st.integers(1, 12))
def test_a_distance_whatever_the_rank(seed, n, m, d):
    a, b = rows(n, d, seed), 3 * rows(m, d, seed + 1, 0.5)
    value = fid(a, b)
    assert value == pytest.approx(fid(b, a), rel=1e-9)
    assert fid(a, a) <= 1e-7
    assert value >= (a.mean(0) - b.mean(0)).square().sum().item() - 1e-9
    turn = torch.linalg.qr(rows(d, d, seed + 2)).Q
    assert fid(a @ turn, b @ turn) == pytest.approx(value, rel=1e-6, abs=1e-6)
    covariances = [torch.from_numpy(np.atleast_2d(np.cov(x.numpy(), rowvar=False))) for x in (a, b)]
    root = torch.linalg.eigvals(covariances[0] @ covariances[1]).real.clamp(min=0).sqrt().sum().item()
    textbook = (a.mean(0) - b.mean(0)).square().sum().item() - 2 * root
    textbook += sum(covariance.trace().item() for covariance in covariances)
    assert value == pytest.approx(textbook, rel=1e-4, abs=1e-4)  # the textbook route loses digits at rank below d


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_images_are_refused(n):
    with pytest.raises(InputError, match="expected at least"):
        fid(A, A[:n])


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
@given(seed=st.integers(0, 999), n=st.integers(2, 9), d=st.integers(1, 5))
def test_kid_of_all_rows_equals_the_definition(seed, n, d):
    a, b = rows(n, d, seed), rows(n, d, seed + 1, 0.3)
    value, spread = kid(a, b, seed=0)
    assert value == pytest.approx(mmd_by_definition(a, b), rel=1e-9, abs=1e-9) and spread is None
    assert value == pytest.approx(kid(b, a, seed=0)[0], abs=1e-12)


def test_subsets_use_equally_many_rows_of_both_and_average():
    a, b = rows(40), rows(30, seed=1, shift=0.5)
    mean, std = kid(a, b, seed=3, subsets=20, subset_size=12)
    generator, values = torch.Generator().manual_seed(3), []
    for _ in range(20):
        first, second = (x[torch.randperm(len(x), generator=generator)[:12]] for x in (a, b))
        values.append(mmd_by_definition(first, second))
    assert mean == pytest.approx(sum(values) / 20, rel=1e-9)
    variance = sum((v - mean) ** 2 for v in values) / 20
    assert std == pytest.approx(variance**0.5, rel=1e-9)


SETS = tuple(GOLDEN[f"prdc_{name}"] for name in ("real", "real_targets", "fake", "fake_targets"))
REAL, _, FAKE, _ = SETS


def table(measures):
    return [measures.precision, measures.recall, measures.density, measures.coverage]


def pooled(real, fake, **options):
    """The measures of all fakes against all reals, as of one class."""
    labels = (torch.zeros(len(rows), dtype=torch.int64) for rows in (real, fake))
    return table(prdc_per_class(real, next(labels), fake, next(labels), **options)[0])


def each_class(definition, k):
    real, labels_real, fake, labels_fake = SETS
    shown = [labels_fake == label for label in range(3)]
    return [
        table(prdc_per_class(real, labels_real, fake[of], labels_fake[of], official=definition == "official", k=k)[0])
        for of in shown
    ]


@pytest.mark.parametrize("k", [3, 5])
def test_prdc_equals_the_official_measures(k):
    """The official code averages in float32."""
    mean, excluded = prdc_per_class(*SETS, official=True, k=k)
    values, whole = each_class("official", k), pooled(REAL, FAKE, official=True, k=k)
    assert excluded == ()
    np.testing.assert_allclose(values, GOLDEN[f"prdc_per_class_k{k}"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(table(mean), GOLDEN[f"prdc_class_mean_k{k}"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(whole, GOLDEN[f"prdc_pooled_k{k}"], rtol=0, atol=2e-7)
    # What the released script logs where its targets are the word `all`: the pooled sets and classes 1 and 2, averaged.
    released = np.mean([whole, *values[1:]], axis=0)
    np.testing.assert_allclose(released, GOLDEN[f"prdc_as_released_3classes_k{k}"], rtol=0, atol=2e-7)


@pytest.mark.parametrize("k", [3, 5])
def test_prdc_equals_the_standard_measures(k):
    official = GOLDEN[f"prdc_standard_definition_per_class_k{k}"]
    np.testing.assert_allclose(each_class("standard", k), official, rtol=0, atol=1e-12)


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


@given(
    seed=st.integers(0, 999),
    n=st.integers(6, 25),
    m=st.integers(6, 25),
    k=st.integers(1, 5),
    chunk=st.integers(1, 200),
    definition=st.sampled_from(("official", "standard")),
)
def test_chunks_and_large_offsets_change_nothing(seed, n, m, k, chunk, definition):
    real, fake = rows(n, 3, seed), 1.3 * rows(m, 3, seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ELEMENTS", chunk)
        ours = pooled(real + 1000, fake + 1000, official=definition == "official", k=k)
    np.testing.assert_allclose(ours, balls_by_definition(real, fake, k, definition), rtol=0, atol=1e-12)


@pytest.mark.parametrize("definition", ["official", "standard"])
def test_copies_lie_on_the_surface_of_balls_and_count(definition):
    real = rows(30, 40, 0) + 50
    precision, recall, density, coverage = pooled(real, real.clone(), official=definition == "official", k=3)
    assert (precision, recall, coverage) == (1, 1, 1)
    assert density == pytest.approx((30 * 4 + sum_of_extra_ties(real, 3)) / (3 * 30))
    same = torch.ones(8, 4)  # all radii are 0
    assert pooled(same, same, official=definition == "official", k=3) == pytest.approx([1, 1, 8 / 3, 1])


def sum_of_extra_ties(real, k):
    between = (real[:, None] - real[None]).norm(dim=2).sort(dim=1).values
    return int(((between - between[:, k : k + 1]).abs() < 1e-9).sum()) - len(real)


def test_small_classes_are_left_out_and_named():
    real, labels_real, fake, labels_fake = SETS
    few = torch.cat([fake[labels_fake == 0][:3], fake[labels_fake == 1]])
    few_labels = torch.cat([torch.zeros(3), torch.ones(30)]).long()
    mean, excluded = prdc_per_class(real, labels_real, few, few_labels, official=True)
    assert excluded == (0,)
    np.testing.assert_allclose(table(mean), GOLDEN["prdc_per_class_k3"][1], rtol=0, atol=2e-7)
    with pytest.raises(InputError, match="classes with at least 41 real and fake images, got none"):
        prdc_per_class(*SETS, official=True, k=40)


METRICS = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "metrics.npz").items()
}
FAKE_LABELS, REAL_LABELS = METRICS["dist_attack_targets"], METRICS["dist_train_targets"]
EMBEDDINGS = ("plain", "l2norm")


def embeddings(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    return METRICS[f"dist_{kind}_attack_embeddings"], METRICS[f"dist_{kind}_train_embeddings"]


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_equals_the_official_distances(kind):
    fake, real = embeddings(kind)
    ours = nearest_real(fake, FAKE_LABELS, real, REAL_LABELS, squared=True)[0]
    expected = METRICS[f"dist_{kind}_per_sample_min_squared"].float()
    torch.testing.assert_close(ours, expected, rtol=2e-6, atol=0)
    torch.testing.assert_close(ours.mean(), METRICS[f"dist_{kind}_mean"], rtol=1e-6, atol=0)
    table = torch.stack([column.double() for column in class_means(ours, FAKE_LABELS)], dim=1)
    torch.testing.assert_close(table, METRICS[f"dist_{kind}_per_class_target_mean"], rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_nearest_images_equal_the_official_look_up(kind):
    """The look-up shrinks its images twice, 16 to 8 to 6."""
    images = METRICS["dist_attack_raw_images"][:, :, 2:18, 2:18]
    for size in (8, 6):
        images = torch.nn.functional.interpolate(images, size=size, mode="bilinear", antialias=True)
    fake = images.flatten(1) @ METRICS["dist_embed_weight"]
    if kind == "l2norm":
        fake = torch.nn.functional.normalize(fake)
    real = METRICS[f"dist_{kind}_train_embeddings"]
    distance, index = nearest_real(fake, FAKE_LABELS, real, REAL_LABELS, squared=True)
    expected = METRICS[f"nn_{kind}_distance_squared"].float()
    torch.testing.assert_close(distance, expected, rtol=1e-5, atol=0)
    assert torch.equal(index, METRICS[f"nn_{kind}_closest_index"])


@given(seed=st.integers(0, 999), chunk=st.integers(1, 40))
def test_chunks_change_nothing_and_a_copy_is_at_distance_zero(seed, chunk):
    generator = torch.Generator().manual_seed(seed)
    real, labels = torch.randn(15, 3, generator=generator) + 100, torch.arange(15) % 3
    fake, fake_labels = torch.cat([real[:5], torch.randn(6, 3, generator=generator)]), torch.arange(11) % 3
    expected = nearest_real(fake, fake_labels, real, labels, squared=False)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NEAREST_CHUNK", chunk)
        ours = nearest_real(fake, fake_labels, real, labels, squared=False)[0]
    assert torch.equal(ours, expected)
    assert (expected[:5] == 0).all()
    every = (fake[:, None] - real[None]).norm(dim=2).masked_fill(fake_labels[:, None] != labels, torch.inf)
    torch.testing.assert_close(expected, every.min(dim=1).values, rtol=1e-5, atol=1e-5)


def test_a_class_without_an_image_is_named():
    fake, real = embeddings("plain")
    with pytest.raises(InputError, match="no real image of class 1, 3"):
        nearest_real(fake, FAKE_LABELS, real[:4], torch.zeros(4).long(), squared=True)[0]
    with pytest.raises(ValueError, match="real: expected finite features"):
        nearest_real(fake, FAKE_LABELS, real * torch.nan, REAL_LABELS, squared=True)[0]


@pytest.mark.parametrize(
    ("official", "name", "tolerance"), [(False, "knn_ked", 1e-4), (False, "knn_plg", 1e-4), (True, "knn_lomma", 1e-3)]
)
def test_the_low_resolution_attacks_distances_are_the_official_ones(official, name, tolerance):
    fake, labels, real, real_labels = (
        golden(f"knn_{what}") for what in ("fake_feat", "fake_label", "real_feat", "real_label")
    )
    found = knn_distance(fake, labels, real, real_labels, squared=True, official=official)
    assert found == pytest.approx(golden(name).item(), abs=tolerance)
    plain = knn_distance(fake, labels, real, real_labels, squared=False, official=official)
    assert plain < found
    if official:
        assert (labels >= 300).any() and knn_distance(
            fake, labels + 300, real, real_labels + 300, squared=True, official=True
        ) is None
