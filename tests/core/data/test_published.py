import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from published_trees import (
    encoded,
    facescrub,
    imagenette,
    picture,
    pixels,
    put,
)
from torchvision import transforms as tv

from smoothsweep.core.data.listing import fit_square
from smoothsweep.core.data.published import list_published
from smoothsweep.core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "published.npz", allow_pickle=False) as orders, np.load(GOLDEN / "data.npz") as images:
        return {**orders, **images}


def test_imagenette_keeps_its_own_split_and_sorts_synsets(tmp_path):
    listing = list_published("imagenette", imagenette(tmp_path), classes=3)
    assert listing.names == ("n01440764", "n02102040", "n02979186")
    assert [listing.files[i].split("/")[0] for i in listing.train.tolist()] == ["train"] * 9
    assert listing.labels[listing.test].tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="split_seed: expected 42"):
        list_published("imagenette", tmp_path, classes=3, split_seed=7)
    with pytest.raises(InputError, match="expected 10 synsets, got 3"):
        list_published("imagenette", tmp_path)
    shutil.rmtree(tmp_path / "val" / "n02102040")
    with pytest.raises(InputError, match="expected pictures in val/n02102040, got none"):
        list_published("imagenette", tmp_path, classes=3)


def test_squares_equal_the_official_test_transform(golden):
    image = Image.fromarray(golden["tf_input_uint8_hwc"])
    for fit, name in (("stretch", "tf_test_list16_dogs"), ("shorter_side", "tf_test_int16_celeba")):
        ours = np.asarray(fit_square(image, 16, fit)).transpose(2, 0, 1).astype(np.float32) / 255 * 2 - 1
        np.testing.assert_allclose(ours, golden[name], atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(width=st.integers(1, 60), height=st.integers(1, 60), size=st.integers(1, 40))
def test_the_shorter_side_fits_as_in_torchvision(width, height, size):
    image = Image.fromarray(pixels(width * 100 + height, width, height))
    steps = tv.Compose([tv.Resize(size), tv.CenterCrop(size)])
    np.testing.assert_array_equal(np.asarray(fit_square(image, size, "shorter_side")), np.asarray(steps(image)))


def test_pictures_are_converted_as_pillow_does_without_turning(tmp_path):
    root = facescrub(tmp_path / "in", (("actors", "A", 2), ("actresses", "B", 1)))
    exif = Image.Exif()
    exif[0x0112] = 6
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    put(root / "actors" / "faces" / "A" / "0.png", encoded(grey, "PNG", exif=exif))
    image = picture(list_published("facescrub", root, classes=2), 0)
    np.testing.assert_array_equal(np.asarray(image), np.repeat(np.asarray(grey)[..., None], 3, axis=2))
