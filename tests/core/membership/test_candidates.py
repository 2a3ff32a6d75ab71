"""What a network is asked about membership, parts of images, and what tells the two kinds apart without any memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import check_part, inside_part
from smoothsweep.core.membership.candidates import (
    COPY,
    copies,
    right_over_noise,
    right_over_views,
    scores_of,
    scores_without_target,
    thumbnails,
)
from smoothsweep.core.membership.candidates import SIDE as THUMBNAIL
from smoothsweep.core.membership.measuring import is_chance, roc_auc

SIDE, CLASSES, IMAGES = 16, 3, 270  # more than the 256 that are asked at once


class Asked:
    """A fixed linear network that keeps what it was shown."""

    def __init__(self, side=SIDE):
        draw = torch.Generator().manual_seed(0)
        self.weight = torch.randn(3 * side * side, CLASSES, generator=draw)
        self.shown, self.side = [], side

    def __call__(self, images):
        assert images.shape[1:] == (3, self.side, self.side)
        self.shown.append(images.clone())
        return images.flatten(1) @ self.weight

    def copies(self, count):
        """What it was shown of every image, [count, n, 3, S, S]."""
        return torch.cat(self.shown).reshape(count, -1, 3, self.side, self.side).numpy()

    def right(self, images, labels):
        return (images.reshape(len(images), -1) @ self.weight.numpy()).argmax(axis=1) == labels.numpy()


def pictures(count=IMAGES, side=SIDE):
    draw = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, side, side, generator=draw) * 1.6 - 0.8
    return images, torch.randint(CLASSES, (count,), generator=draw)


def asked(question, model, images, labels, seed=2, **given):
    draw = torch.Generator().manual_seed(seed)
    return question(model, images, labels, image_size=model.side, device="cpu", generator=draw, **given)


def test_log_odds_of_the_image_and_its_mirror_image_and_the_margin_of_the_image():
    images, labels = pictures(20)
    model = Asked()
    phi, margin = scores_of(model, images, labels, image_size=SIDE, device="cpu")
    rows, true = np.arange(20), labels.numpy()
    for view, shown in enumerate((images.numpy(), images.numpy()[..., ::-1])):
        logits = shown.reshape(20, -1) @ model.weight.double().numpy()
        p = np.exp(log_softmax(logits / 1, axis=1))[rows, true]
        few = (p > 1e-3) & (p < 1 - 1e-3)  # where the quotient keeps its digits
        assert few.sum() > 2 and phi[view][few] == pytest.approx(np.log(p / (1 - p))[few], abs=1e-3)
        if view == 0:
            best = np.where(np.eye(CLASSES, dtype=bool)[true], -np.inf, logits).max(axis=1)
            assert margin == pytest.approx(logits[rows, true] - best, abs=1e-3)
    small = Asked(side=8)
    scores_of(small, images, labels, image_size=8, device="cpu")  # at the side that the network sees
    assert len(small.shown) == 2


def moved(images, across, down):
    """An image seen through a window that has moved, its edge drawn out. By indices."""
    places = np.arange(images.shape[-1])
    rows, columns = (np.clip(places + by, 0, len(places) - 1) for by in (down, across))
    return images[..., rows[:, None], columns[None]]


@pytest.mark.parametrize(
    ("side", "farthest", "copies", "count"), [(SIDE, 2, 60, 4), (SIDE, 2, 2, IMAGES), (4, 1, 8, 4)]
)
def test_copies_are_shifted_alike_by_up_to_an_eighth_and_every_second_one_is_mirrored(side, farthest, copies, count):
    images, labels = pictures(count, side)
    model = Asked(side)
    found = asked(right_over_views, model, images, labels, copies=copies)
    steps = range(-farthest, farthest + 1)
    shifts = []
    for number, shown in enumerate(model.copies(copies)):
        plain = images.numpy()[..., ::-1] if number % 2 else images.numpy()
        shifts += [(a, d) for a in steps for d in steps if np.array_equal(moved(plain, a, d), shown)]
        assert len(shifts) == number + 1
        assert np.array_equal(found[number], model.right(shown, labels))
    if copies == 60:
        assert set(shifts) >= {(-2, d) for d in (-2, 2)} | {(2, d) for d in (-2, 2)} and 0 < found.mean() < 1


def test_noise_grows_by_a_factor_from_its_weakest_level_to_its_strongest():
    images, labels = torch.zeros(IMAGES, 3, SIDE, SIDE), pictures()[1]
    model = Asked()
    found = asked(right_over_noise, model, images, labels, levels=4)
    shown = model.copies(4)
    inside = shown[:, :, 0]  # a third of the values is enough
    assert [one.std() for one in inside[:3]] == pytest.approx(np.geomspace(0.02, 0.5, 4)[:3], rel=0.03)
    assert 0.4 < inside[3].std() < 0.5 and abs(inside).max() == 1  # cut where a picture ends
    assert abs(np.corrcoef(inside[0].ravel(), inside[1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(inside[0, 0].ravel(), inside[0, 1].ravel())[0, 1]) < 0.3
    assert all(np.array_equal(flags, model.right(one, labels)) for flags, one in zip(found, shown, strict=True))
    asked(right_over_noise, one := Asked(), images[:50], labels[:50], levels=1)
    assert one.copies(1).std() == pytest.approx(0.02, rel=0.03)


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
    base = np.random.default_rng(4).uniform(0.2, 0.8, (3, 3 * THUMBNAIL * THUMBNAIL))
    small = base[[0, 1, 0, 1, 0, 1, 0, 2]]
    small[[2, 3], 17] += (COPY - 1e-9, COPY + 1e-9)
    small[4, 5] -= COPY - 1e-9
    labels = np.array([0, 0, 0, 0, 0, 1, 2, 3])
    member = np.array([True, True, False, False, False, False, False, True])
    assert copies(small, labels, member).tolist() == [False, False, True, False, True, False, False, False]
    assert pytest.approx(2 / 255) == COPY


@given(st.lists(st.integers(4, 15), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 5))
def test_every_image_is_in_one_of_two_halves_and_classes_are_balanced(counts, pair, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    one, other = (inside_part(labels, model=2 * pair + i, share=0.5, seed=seed) for i in (0, 1))
    assert (one ^ other).all()
    assert all(abs(2 * one[labels == label].sum() - count) <= 1 for label, count in enumerate(counts))


def test_the_order_is_drawn_anew_for_every_pair_class_and_seed():
    labels = np.repeat([0, 1], 20)
    parts = [inside_part(labels, model=0, share=0.5, seed=0), inside_part(labels, model=2, share=0.5, seed=0)]
    parts += [inside_part(labels, model=0, share=0.5, seed=1)]
    assert len({part.tobytes() for part in parts}) == 3 and (parts[0][:20] != parts[0][20:]).any()


@pytest.mark.parametrize(("counts", "share"), [((10, 3), 0.5), ((10, 10), 0.1), ((10, 10), 0.95)])
def test_fewer_than_two_images_of_a_class_are_refused_in_one_line(counts, share):
    with pytest.raises(InputError, match="at least 2 images of every class in a shadow model's part and outside it"):
        check_part(counts, share)
