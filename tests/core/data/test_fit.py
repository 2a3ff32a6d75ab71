"""Public images of another kind, colour or frame are noticed; mirrored ones, and others of the same kind, fit."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from smoothsweep.core.data.fit import fit_of
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.data.transforms import resize


def drawn(population, people, each, seed):
    return synthetic_faces(population=population, identities=people, per_identity=each, size=48, spread=0.6, seed=seed)


def small(images):
    return resize(images.float(), 32).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()


@pytest.fixture(scope="module")
def private():
    faces = drawn("private", 12, 8, 1)
    return small(faces.images), faces.labels.numpy()


@pytest.fixture(scope="module")
def public():
    return drawn("public", 150, 1, 2).images


def test_other_drawn_people_fit_also_mirrored(private, public):
    for images in (public, public.flip(3)):
        fit = fit_of(*private, small(images))
        assert fit.doubts == () and not fit.is_refused and fit.distance < 1.4


def test_digits_are_another_kind_of_thing(private):
    digits = torch.from_numpy(load_digits().images[:300] * 15.9)[:, None].expand(-1, 3, -1, -1)
    fit = fit_of(*private, small(digits))
    assert fit.is_refused and "another kind of thing" in " ".join(fit.doubts)


def test_grey_images_are_said_to_be_grey(private, public):
    [doubt] = fit_of(*private, small(public.float().mean(1, keepdim=True).expand(-1, 3, -1, -1))).doubts
    assert "100% of the private images are in colour, 0% of the public ones" in doubt


def test_a_shifted_frame_is_told_with_the_shift_that_would_fit(private, public):
    moved = torch.roll(public, (6, -6), (2, 3))  # down by an eighth of the side, and to the left
    fit = fit_of(*private, small(moved))
    assert fit.shift == pytest.approx((-12.5, 12.5), abs=3.2) and fit.scale == pytest.approx(1, abs=0.11)
    assert "another frame" in " ".join(fit.doubts) and not fit.is_refused


def test_an_enlarged_frame_is_told_with_the_scale(private, public):
    wide = torch.nn.functional.pad(public.float(), (10, 10, 10, 10), mode="replicate")
    fit = fit_of(*private, small(wide))
    assert fit.scale == pytest.approx(48 / 68, abs=0.11) and fit.distance > fit_of(*private, small(public)).distance


def test_nothing_is_said_of_few_images_or_one_person(private, public):
    images, labels = private
    assert fit_of(images, labels, small(public[:19])) is None
    assert fit_of(images, np.zeros_like(labels), small(public)) is None


def test_pictures_without_a_common_frame_are_not_told_to_have_another():
    noise = np.random.default_rng(0).integers(0, 256, (80, 32, 32, 3), dtype=np.uint8)
    assert fit_of(noise[:40], np.arange(40) % 4, noise[40:]).doubts == ()
