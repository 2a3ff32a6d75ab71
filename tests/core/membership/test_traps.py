"""What makes members and other images differ without any memory, and what is noticed of it."""

import numpy as np
import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.membership.candidates import COPY, SIDE, copies, scores_without_target, thumbnails
from smoothsweep.core.membership.measuring import is_chance, roc_auc


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(identities=20, per_identity=12, size=32, spread=0.4, seed=5, population="private")


@pytest.fixture(scope="module")
def member(faces):
    return np.random.default_rng(0).permutation(len(faces)) % 3 > 0


def shift(images, member):
    scores = scores_without_target(thumbnails(images), member)
    return roc_auc(scores[member], scores[~member])


def test_images_of_one_distribution_are_not_told_apart(faces, member):
    assert is_chance(shift(faces.images, member), member.sum(), (~member).sum())


@pytest.mark.parametrize("change", [lambda x: x + 12, lambda x: (x - 128) * 0.85 + 128], ids=["lighter", "paler"])
def test_test_images_of_another_camera_are_told_apart(faces, member, change):
    images = faces.images.clone()
    other = torch.from_numpy(~member)
    images[other] = change(images[other].float()).clamp(0, 255).to(torch.uint8)
    found = shift(images, member)
    assert found > 0.75 and not is_chance(found, member.sum(), (~member).sum())


def test_copies_of_members_are_found_and_others_are_not(faces, member):
    images, labels = faces.images.clone(), faces.labels.numpy()
    inner, outer = np.flatnonzero(member & (labels == 4)), np.flatnonzero(~member & (labels == 4))
    noise = torch.randint(-1, 2, images[0].shape, generator=torch.Generator().manual_seed(0))
    images[outer[0]] = (images[inner[0]].int() + noise).clamp(0, 255).to(torch.uint8)
    assert np.flatnonzero(copies(thumbnails(images), labels, member)).tolist() == [outer[0]]


def test_copies_are_of_the_same_class_and_differ_by_no_more_than_saving_does():
    """One pixel of 432 decides. Of class 2 there is no member, of class 3 no other image."""
    base = np.random.default_rng(4).uniform(0.2, 0.8, (3, 3 * SIDE * SIDE))
    small = base[[0, 1, 0, 1, 0, 1, 0, 2]]
    small[[2, 3], 17] += (COPY - 1e-9, COPY + 1e-9)
    small[4, 5] -= COPY - 1e-9
    labels = np.array([0, 0, 0, 0, 0, 1, 2, 3])
    member = np.array([True, True, False, False, False, False, False, True])
    assert copies(small, labels, member).tolist() == [False, False, True, False, True, False, False, False]
    assert pytest.approx(2 / 255) == COPY
