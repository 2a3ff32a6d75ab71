"""What a network is asked about membership, by a network that keeps what it is shown, and numbers by hand."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from smoothsweep.core.membership.candidates import right_over_noise, right_over_views, scores_of

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
