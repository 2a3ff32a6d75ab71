from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics import fidelity
from smoothsweep.core.metrics.accuracy import class_means
from smoothsweep.core.metrics.fidelity import knn_distance, nearest_feature_distance, nearest_real, nearest_reals
from tests.lowres import golden

GOLDEN = {
    name: torch.from_numpy(np.asarray(array))
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "metrics.npz").items()
}
FAKE_LABELS, REAL_LABELS = GOLDEN["dist_attack_targets"], GOLDEN["dist_train_targets"]
KINDS = ("plain", "l2norm")


def embeddings(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    return GOLDEN[f"dist_{kind}_attack_embeddings"], GOLDEN[f"dist_{kind}_train_embeddings"]


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_official_distances(kind):
    fake, real = embeddings(kind)
    ours = nearest_feature_distance(fake, FAKE_LABELS, real, REAL_LABELS, squared=True)
    expected = GOLDEN[f"dist_{kind}_per_sample_min_squared"].float()
    torch.testing.assert_close(ours, expected, rtol=2e-6, atol=0)
    torch.testing.assert_close(ours.mean(), GOLDEN[f"dist_{kind}_mean"], rtol=1e-6, atol=0)
    table = torch.stack([column.double() for column in class_means(ours, FAKE_LABELS)], dim=1)
    torch.testing.assert_close(table, GOLDEN[f"dist_{kind}_per_class_target_mean"], rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_images_equal_the_official_look_up(kind):
    """The look-up shrinks its images twice, 16 to 8 to 6."""
    images = GOLDEN["dist_attack_raw_images"][:, :, 2:18, 2:18]
    for size in (8, 6):
        images = torch.nn.functional.interpolate(images, size=size, mode="bilinear", antialias=True)
    fake = images.flatten(1) @ GOLDEN["dist_embed_weight"]
    if kind == "l2norm":
        fake = torch.nn.functional.normalize(fake)
    real = GOLDEN[f"dist_{kind}_train_embeddings"]
    distance, index = nearest_real(fake, FAKE_LABELS, real, REAL_LABELS, squared=True)
    expected = GOLDEN[f"nn_{kind}_distance_squared"].float()
    torch.testing.assert_close(distance, expected, rtol=1e-5, atol=0)
    assert torch.equal(index, GOLDEN[f"nn_{kind}_closest_index"])


def test_squared_is_the_square_and_classes_do_not_mix():
    fake, real = torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]])
    labels_fake, labels_real = torch.tensor([7, 2]), torch.tensor([7, 2, 7])
    plain, index = nearest_real(fake, labels_fake, real, labels_real, squared=False)
    assert plain.tolist() == [5.0, 1.0]
    assert index.tolist() == [0, 1]
    assert nearest_feature_distance(fake, labels_fake, real, labels_real, squared=True).tolist() == [
        25.0,
        1.0,
    ]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), chunk=st.integers(1, 40))
def test_chunks_change_nothing_and_a_copy_is_at_distance_zero(seed, chunk):
    generator = torch.Generator().manual_seed(seed)
    real, labels = torch.randn(15, 3, generator=generator) + 100, torch.arange(15) % 3
    fake, fake_labels = torch.cat([real[:5], torch.randn(6, 3, generator=generator)]), torch.arange(11) % 3
    expected = nearest_feature_distance(fake, fake_labels, real, labels, squared=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fidelity, "NEAREST_CHUNK", chunk)
        ours = nearest_feature_distance(fake, fake_labels, real, labels, squared=False)
    assert torch.equal(ours, expected)
    assert (expected[:5] == 0).all()
    every = (fake[:, None] - real[None]).norm(dim=2).masked_fill(fake_labels[:, None] != labels, torch.inf)
    torch.testing.assert_close(expected, every.min(dim=1).values, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), count=st.integers(1, 5))
def test_the_nearest_images_come_in_order_and_the_first_is_the_nearest(seed, count):
    generator = torch.Generator().manual_seed(seed)
    real, labels = torch.randn(15, 3, generator=generator), torch.arange(15) % 3
    fake, fake_labels = torch.randn(7, 3, generator=generator), torch.arange(7) % 3
    distance, index = nearest_reals(fake, fake_labels, real, labels, count=count, squared=True)
    every = (fake[:, None] - real[None]).square().sum(2).masked_fill(fake_labels[:, None] != labels, torch.inf)
    expected = every.sort(dim=1)
    torch.testing.assert_close(distance, expected.values[:, :count], rtol=1e-5, atol=1e-6)
    assert torch.equal(index, expected.indices[:, :count])
    first = nearest_real(fake, fake_labels, real, labels, squared=True)
    assert torch.equal(first[0], distance[:, 0]) and torch.equal(first[1], index[:, 0])


def test_a_class_with_too_few_images_for_the_count_is_named():
    fake, real = embeddings("plain")
    with pytest.raises(InputError, match="expected 6 reals of class 1, got 5"):
        nearest_reals(fake, FAKE_LABELS, real, REAL_LABELS, count=6, squared=True)
    with pytest.raises(InputError, match="no real image of class 1, 3"):
        nearest_feature_distance(fake, FAKE_LABELS, real[:4], torch.zeros(4).long(), squared=True)
    with pytest.raises(ValueError, match="real: expected finite features"):
        nearest_feature_distance(fake, FAKE_LABELS, real * torch.nan, REAL_LABELS, squared=True)


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
