"""What makes members and other images differ without any memory, and what is noticed of it."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.membership.candidates import COPY, SIDE, copies, scores_without_target, thumbnails
from smoothsweep.core.membership.measuring import membership_only
from smoothsweep.core.metrics.membership import roc_auc


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


def test_thumbnails_are_the_pixels_from_0_to_1():
    """Of images that have the side already; more than are reduced at once. Numbers beyond white and black are cut."""
    draw = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (600, 3, SIDE, SIDE), dtype=torch.uint8, generator=draw)
    found = thumbnails(images)
    assert found.dtype == np.float64 and found == pytest.approx(images.numpy().reshape(600, -1) / 255, abs=1e-6)
    beyond = torch.randn(3, 3, SIDE, SIDE, generator=draw) * 2
    assert abs(beyond).max() > 4
    assert thumbnails(beyond) == pytest.approx(np.clip(beyond.numpy().reshape(3, -1) / 2 + 0.5, 0, 1), abs=1e-6)


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


def by_hand(small):
    """What the classifier is told of an image, one number after the other."""
    rows = []
    for image in small.reshape(len(small), 3, SIDE, SIDE):
        sharp = np.mean([abs(image[c, y, x + 1] - image[c, y, x]) for c, y, x in np.ndindex(3, SIDE, SIDE - 1)])
        facts = [image.mean(), image.std(), sharp, sharp**2]
        rows.append([*image.ravel(), *facts, *(one.mean() for one in image), *(one.std() for one in image)])
    return np.array(rows)


@pytest.mark.parametrize("seed", [0, 3])
def test_an_image_is_scored_by_a_ridge_regression_that_did_not_see_it(seed):
    """By scikit-learn: five folds of members and of others alike; scores of every fold are around its own mean."""
    draw = np.random.default_rng(8)
    small, member = draw.uniform(size=(43, 3 * SIDE * SIDE)), np.arange(43) % 3 > 0
    found, told = scores_without_target(small, member, seed=seed), by_hand(small)
    order = np.random.default_rng(seed)
    fold = np.empty(43, int)
    for kind in (True, False):
        for place, row in enumerate(order.permutation(np.flatnonzero(member == kind))):
            fold[row] = place % 5
    expected = np.empty(43)
    for number in range(5):
        seen = fold != number
        scale = StandardScaler().fit(told[seen])
        # the ridge is a tenth of the mean variance, which is 1 of what was scaled, for as many images as were seen
        ridge = Ridge(alpha=0.1 * seen.sum()).fit(scale.transform(told[seen]), member[seen])
        expected[~seen] = ridge.predict(scale.transform(told[~seen]))
        expected[~seen] -= expected[~seen].mean()
    assert found == pytest.approx(expected, abs=1e-7) and found.std() > 0.01


def test_one_threshold_for_all_accuses_some_images_nearly_always():
    """Per-sample false positive rates: 1 % over all images, and nearly 1 for an easy image."""
    draw = np.random.default_rng(1)
    easy = np.zeros(500)
    easy[:4] = 14.0
    member = draw.random((64, 500)) < 0.5
    scores = draw.normal(size=(64, 500)) + easy
    threshold = np.quantile(scores[~member], 0.99)
    rates = ((scores > threshold) & ~member).sum(axis=0) / (~member).sum(axis=0)
    assert ((scores > threshold) & ~member).sum() / (~member).sum() == pytest.approx(0.01, abs=0.002)
    assert rates[:4].min() > 0.9 and rates[4:].max() < 0.2
