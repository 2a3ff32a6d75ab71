"""The perceptual hash: what it holds still under, what it tells apart, and whom it names as nearest."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.data.likeness import NEAR, Hashes, hashes, nearest
from tests.labelled_files import encoded, scene


def small(picture):
    return np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR))


def distance(one, other):
    bits = hashes(np.stack([small(one), small(other)])).bits
    return int(np.bitwise_count(bits[0] ^ bits[1]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "changed",
    [
        lambda picture: picture.resize((61, 61), Image.Resampling.LANCZOS),
        lambda picture: picture.point(lambda value: int(0.8 * value + 12)),
        lambda picture: picture.convert("L").convert("RGB"),
        lambda picture: Image.open(io.BytesIO(encoded(picture, "JPEG", quality=40))),
    ],
)
def test_a_resized_dimmed_grey_or_compressed_copy_is_near_and_another_picture_is_not(seed, changed):
    assert distance(scene(seed), changed(scene(seed))) <= NEAR < distance(scene(seed), scene(seed + 100))


def test_a_picture_of_one_shade_is_near_nothing():
    flat = np.full((3, 32, 32, 3), 120, dtype=np.uint8)
    index, apart = nearest(hashes(flat))
    assert index.tolist() == [-1, -1, -1] and apart.min() > NEAR


@given(st.lists(st.integers(0, 2**64 - 1), max_size=12), st.lists(st.integers(0, 2**64 - 1), max_size=12))
def test_the_nearest_is_what_counting_bits_one_by_one_finds(some, others):
    def made(values):
        return Hashes(bits=np.array(values, dtype=np.uint64), plain=np.zeros(len(values), dtype=bool))

    for given_others, candidates in ((others, lambda row: others), (None, lambda row: some[:row])):
        index, apart = nearest(made(some), None if given_others is None else made(given_others))
        for row, value in enumerate(some):
            counted = [(value ^ other).bit_count() for other in candidates(row)]
            assert apart[row] == min(counted, default=65)
            assert index[row] == (counted.index(min(counted)) if counted else -1)
