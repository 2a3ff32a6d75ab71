"""What makes members and other images differ without any memory, and what is noticed of it."""

import numpy as np
import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.membership.measuring import membership_only
from smoothsweep.core.membership.traps import copies, thumbnails, told_apart
from smoothsweep.core.metrics.membership import rates_per_image, roc_auc


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(identities=20, per_identity=12, size=32, spread=0.4, seed=5, population="private")


@pytest.fixture(scope="module")
def member(faces):
    return np.random.default_rng(0).permutation(len(faces)) % 3 > 0


def shift(images, member):
    scores = told_apart(thumbnails(images), member)
    return roc_auc(scores[member], scores[~member])


def test_images_of_one_distribution_are_not_told_apart(faces, member):
    assert membership_only(shift(faces.images, member), member.sum(), (~member).sum())


@pytest.mark.parametrize("change", [lambda x: x + 12, lambda x: (x - 128) * 0.85 + 128], ids=["lighter", "paler"])
def test_test_images_of_another_camera_are_told_apart(faces, member, change):
    images = faces.images.clone()
    other = torch.from_numpy(~member)
    images[other] = change(images[other].float()).clamp(0, 255).to(torch.uint8)
    found = shift(images, member)
    assert found > 0.75 and not membership_only(found, member.sum(), (~member).sum())


def test_copies_of_members_are_found_and_others_are_not(faces, member):
    images, labels = faces.images.clone(), faces.labels.numpy()
    inner, outer = np.flatnonzero(member & (labels == 4)), np.flatnonzero(~member & (labels == 4))
    noise = torch.randint(-1, 2, images[0].shape, generator=torch.Generator().manual_seed(0))
    images[outer[0]] = (images[inner[0]].int() + noise).clamp(0, 255).to(torch.uint8)
    assert np.flatnonzero(copies(thumbnails(images), labels, member)).tolist() == [outer[0]]


def test_one_threshold_for_all_accuses_some_images_nearly_always():
    """Per-sample false positive rates: 1 % over all images, and nearly 1 for an easy image."""
    draw = np.random.default_rng(1)
    easy = np.zeros(500)
    easy[:4] = 14.0
    member = draw.random((64, 500)) < 0.5
    scores = draw.normal(size=(64, 500)) + easy
    threshold = np.quantile(scores[~member], 0.99)
    rates = rates_per_image(scores, member, threshold)
    assert ((scores > threshold) & ~member).sum() / (~member).sum() == pytest.approx(0.01, abs=0.002)
    assert rates[:4].min() > 0.9 and rates[4:].max() < 0.2
