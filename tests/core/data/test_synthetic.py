"""Synthetic identities: the same everywhere, disjoint where they must be, and tellable apart."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.synthetic import TRAIT_NAMES, identity_traits, synthetic_faces
from smoothsweep.core.data.synthetic.people import FaceStreams
from smoothsweep.core.errors import InputError

KNOWN_NOSE = [241, 193, 157]
KNOWN_BACKGROUND = [154, 181, 121]
KNOWN_MEAN = 150.548
KNOWN_STREAM = "730ffdc3ff8e14f6"


def faces(**changes):
    options = {"population": "private", "identities": 3, "per_identity": 4, "size": 32, "seed": 5} | changes
    return synthetic_faces(**options)


def test_known_pixels():
    # The renderer uses exactly rounded operations only, so that the bytes are the same on every machine; angles and
    # normal deviates go through the mathematical library, whose last bit may differ: hence a tolerance of one level.
    drawn = faces(size=64, identities=1, per_identity=1).images[0]
    assert drawn[:, 32, 32].tolist() == pytest.approx(KNOWN_NOSE, abs=1)
    assert drawn[:, 2, 2].tolist() == pytest.approx(KNOWN_BACKGROUND, abs=1)
    assert drawn.float().mean().item() == pytest.approx(KNOWN_MEAN, abs=0.05)


def test_streams_are_pinned():
    streams = FaceStreams(population="public", seed=1)
    uniform, noise = streams.image_bits(3, 4, 100)
    assert uniform.shape == (64,) and noise.shape == (100,)
    assert hashlib.sha256(uniform.tobytes() + noise.tobytes()).hexdigest()[:16] == KNOWN_STREAM
    again, _ = FaceStreams(population="public", seed=1).image_bits(3, 4, 8)
    assert np.array_equal(uniform, again)


def test_prefix_and_ranges_do_not_change_an_image():
    whole = faces(identities=4, per_identity=6)
    fewer = faces(identities=2, per_identity=6)
    assert torch.equal(whole.images[:12], fewer.images)
    later = faces(identities=4, per_identity=2, first_image=4)
    expected = whole.images.reshape(4, 6, 3, 32, 32)[:, 4:].reshape(8, 3, 32, 32)
    assert torch.equal(later.images, expected)


@settings(max_examples=8, deadline=None)
@given(identity=st.integers(0, 40), image=st.integers(0, 10**6), seed=st.integers(0, 2**40), spread=st.floats(0.0, 2.0))
def test_an_image_does_not_depend_on_what_else_is_drawn(identity, image, seed, spread):
    options = {"population": "public", "size": 16, "seed": seed, "spread": spread}
    alone = synthetic_faces(identities=identity + 1, per_identity=1, first_image=image, **options)
    among = synthetic_faces(identities=identity + 2, per_identity=2, first_image=image, threads=2, **options)
    assert torch.equal(alone.images[identity], among.images[2 * identity])


def test_populations_seeds_and_images_differ():
    private, public, other = (
        faces(per_identity=1).images,
        faces(population="public", per_identity=1).images,
        faces(seed=6, per_identity=1).images,
    )
    for a, b in ((private, public), (private, other)):
        assert ((a.float() - b.float()).abs().mean(dim=(1, 2, 3)) > 5).all()
    drawn = faces(identities=1, per_identity=30)
    assert len({image.numpy().tobytes() for image in drawn.images}) == 30


def test_traits_are_standardised_independent_and_disjoint():
    traits = identity_traits(population="public", identities=2000, seed=0)
    assert traits.shape == (2000, len(TRAIT_NAMES)) and traits.dtype == np.float32
    assert np.abs(traits.mean(axis=0)).max() < 0.1
    assert np.abs(traits.std(axis=0) - 1).max() < 0.08
    correlation = np.corrcoef(traits.T) - np.eye(len(TRAIT_NAMES))
    assert np.abs(correlation).max() < 0.12
    private = identity_traits(population="private", identities=2000, seed=0)
    distances = np.linalg.norm(private[:300, None] - traits[None, :300], axis=2)
    assert distances.min() > 2.0  # nobody is in both, not even nearly


def test_an_identity_resembles_itself_more_than_others():
    # Mean pictures of two disjoint draws: pose, light and background average out, the person stays.
    def means(first_image):
        drawn = faces(identities=12, per_identity=24, first_image=first_image).images[:, :, 6:26, 8:24]
        return drawn.float().reshape(12, 24, -1).mean(dim=1)

    distances = torch.cdist(means(0), means(24))
    assert (distances.argmin(dim=1) == torch.arange(12)).float().mean() >= 0.9
    same = distances.diagonal().mean()
    assert same < 0.6 * (distances.sum() - distances.trace()) / 132


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"population": "secret"}, "population"),
        ({"identities": 0}, "identities"),
        ({"per_identity": 0}, "per_identity"),
        ({"size": 8}, "size"),
        ({"spread": -0.1}, "spread"),
        ({"spread": float("nan")}, "spread"),
        ({"first_image": -1}, "first_image"),
        ({"threads": 0}, "threads"),
    ],
)
def test_wrong_values_are_named(change, word):
    with pytest.raises(InputError, match=word):
        faces(**change)
