"""Synthetic identities: the same everywhere, disjoint where they must be, and tellable apart."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.synthetic import TRAIT_NAMES, identity_traits, synthetic_faces
from smoothsweep.core.errors import InputError

KNOWN_NOSE = [241, 193, 157]
KNOWN_BACKGROUND = [154, 181, 121]
KNOWN_MEAN = 150.548


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


@settings(max_examples=8, deadline=None)
@given(identity=st.integers(0, 40), image=st.integers(0, 10**6), seed=st.integers(0, 2**40), spread=st.floats(0.0, 2.0))
def test_an_image_does_not_depend_on_what_else_is_drawn(identity, image, seed, spread):
    options = {"population": "public", "size": 16, "seed": seed, "spread": spread}
    alone = synthetic_faces(identities=identity + 1, per_identity=1, first_image=image, **options)
    among = synthetic_faces(identities=identity + 2, per_identity=2, first_image=image, threads=2, **options)
    assert torch.equal(alone.images[identity], among.images[2 * identity])


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
        ({"size": 8}, "size"),
        ({"spread": -0.1}, "spread"),
    ],
)
def test_wrong_values_are_named(change, word):
    with pytest.raises(InputError, match=word):
        faces(**change)
